"""Rules for access to the Kubernetes API: allowed addresses, and IAM users and roles."""

from collections.abc import Iterator
from ipaddress import IPv4Network

from infra.config.messages import format_value
from infra.config.problems import Problem, create_warning
from infra.facts.model import Facts
from infra.facts.queries import Query
from infra.settings.stack import Settings
from infra.validation.formats import check_no_example_addresses, check_not_open_to_internet, parse_cidr
from infra.validation.principals import check_principal_arn, check_principal_exists
from infra.validation.registry import EKS, Topic, register_rule

MOST_CIDRS = 40
"""https://docs.aws.amazon.com/eks/latest/userguide/service-quotas.html"""
MOST_RULES = 59
"""The quota is 60 ingress rules, and EKS uses one: https://docs.aws.amazon.com/vpc/latest/userguide/amazon-vpc-limits.html"""


@register_rule(target=EKS)
def check_public_endpoint(settings: Settings) -> Iterator[Problem]:
    access, path = settings.eks.endpoint_access, "target.endpointAccess"
    if access.public and not access.public_cidrs:
        yield Problem(
            f"{path}.publicCidrs", "required because public is true. List the CIDRs to allow, such as [203.0.113.0/24]."
        )
    if access.public is False and access.public_cidrs:
        yield Problem(f"{path}.public", "is false, but publicCidrs is not empty. Remove one of these two settings.")


@register_rule(target=EKS)
def check_public_cidrs(settings: Settings) -> Iterator[Problem]:
    access, path = settings.eks.endpoint_access, "target.endpointAccess.publicCidrs"
    if len(access.public_cidrs) > MOST_CIDRS:
        yield Problem(path, f"has {len(access.public_cidrs)} entries, but EKS accepts at most {MOST_CIDRS}")
    fix = "List your own addresses, or set allowAnywhere: true."
    everywhere = [] if access.allow_anywhere else list(check_not_open_to_internet(path, access.public_cidrs, fix))
    for index, text in enumerate(access.public_cidrs):
        where, network = f"{path}[{index}]", parse_cidr(text, "203.0.113.0/24")
        if isinstance(network, str):
            yield Problem(where, network)
        elif not everywhere:
            yield from _check_cidr_is_public(where, network)
        if text in access.public_cidrs[:index]:
            yield Problem(where, f"{format_value(text)} is listed twice. Remove one.")
    yield from everywhere
    yield from check_no_example_addresses(path, access.public_cidrs, "EKS refuses it")


_PRIVATE = tuple(IPv4Network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"))
_UNUSABLE = {
    IPv4Network("0.0.0.0/8"): "this network (RFC 1122)",
    IPv4Network("127.0.0.0/8"): "loopback (RFC 1122)",
    IPv4Network("169.254.0.0/16"): "link-local addresses (RFC 3927)",
    IPv4Network("224.0.0.0/4"): "multicast (RFC 5771)",
    IPv4Network("240.0.0.0/4"): "future use (RFC 1112)",
}
"""Addresses that cannot belong to another machine, even in a private network."""
_RESERVED = {
    **_UNUSABLE,
    IPv4Network("100.64.0.0/10"): "carrier-grade NAT (RFC 6598)",
    IPv4Network("192.0.0.0/24"): "IETF protocols (RFC 6890)",
    IPv4Network("198.18.0.0/15"): "benchmarks (RFC 2544)",
}
"""EKS's CIDRs "can't include reserved addresses":
https://docs.aws.amazon.com/eks/latest/userguide/config-cluster-endpoint.html. EKS does not list them; this table follows
https://www.iana.org/assignments/iana-ipv4-special-registry. CreateCluster refuses them with "The following CIDRs are not
allowed in publicAccessCidrs". EKS accepts 0.0.0.0/0."""


def _check_cidr_is_public(where: str, network: IPv4Network) -> Iterator[Problem]:
    if any(network.subnet_of(private) for private in _PRIVATE):
        yield Problem(where, f"{format_value(str(network))} is a private range. Move it to privateCidrs.")
        return
    fix = "List the public addresses of your network (yours: https://checkip.amazonaws.com)."
    for block, purpose in _RESERVED.items():
        if network.prefixlen and network.subnet_of(block):
            yield Problem(where, f"{format_value(str(network))} is reserved for {purpose}, and EKS refuses it. {fix}")
    inside = [str(block) for block in (*_PRIVATE, *_RESERVED) if block != network and block.subnet_of(network)]
    if network.prefixlen and inside:
        yield Problem(where, f"{format_value(str(network))} includes {inside[0]}, which is reserved, and EKS refuses it. {fix}")


@register_rule(target=EKS)
def check_private_cidrs(settings: Settings) -> Iterator[Problem]:
    cidrs, path = settings.eks.endpoint_access.private_cidrs, "target.endpointAccess.privateCidrs"
    if len(cidrs) > MOST_RULES:
        quota = f"the default quota of EC2 allows {MOST_RULES} rules in addition to the rule of EKS"
        fix = "Combine neighboring CIDRs, or request a higher quota of rules per security group."
        yield create_warning(
            path, f"has {len(cidrs)} entries, which need as many rules in one security group, but {quota}. {fix}"
        )
    networks = [parse_cidr(text, "10.8.0.0/16") for text in cidrs]
    for index, (text, network) in enumerate(zip(cidrs, networks, strict=True)):
        where = f"{path}[{index}]"
        if isinstance(network, str):
            yield Problem(where, network)
        elif any(network.overlaps(block) for block in _UNUSABLE) and network.prefixlen > 0:
            yield Problem(
                where,
                f"{format_value(text)} contains addresses that cannot belong to another machine. Use one such as 10.8.0.0/16.",
            )
        elif network.prefixlen > 0 and network.is_global:
            fix = "Internet addresses belong in publicCidrs."
            yield create_warning(
                where, f"{format_value(text)} reaches the private endpoint only over a VPN, Direct Connect or peering. {fix}"
            )
        if network in networks[:index]:
            yield Problem(where, f"{format_value(text)} is listed twice. Remove one.")
    yield from check_not_open_to_internet(path, cidrs, "List the CIDRs of your own networks.")
    yield from check_no_example_addresses(path, cidrs)


@register_rule(target=EKS)
def check_api_is_reachable(settings: Settings) -> Iterator[Problem]:
    """Check that at least one network can reach the cluster: EKS admits only the nodes to a private endpoint."""
    access, install = settings.eks.endpoint_access, settings.platform.install
    if access.is_public or access.public_cidrs or access.private_cidrs or install is None:
        return  # if public is None, another rule warns
    path, reason = "target.endpointAccess.privateCidrs", "the Kubernetes API has no public endpoint"
    if install:
        fix = "List the CIDR of the machine that runs `pulumi up`, such as [10.8.0.0/16]."
        yield Problem(path, f"required because platform.install is true and {reason}. {fix}")
    else:
        fix = "List the CIDRs of your networks in privateCidrs, or your address in publicCidrs."
        yield create_warning(path, f"is empty, and {reason}, so only nodes can reach it. {fix}")


@register_rule(target=EKS)
def check_admin_arns(settings: Settings) -> Iterator[Problem]:
    for index, arn in enumerate(settings.eks.admins):
        yield from check_principal_arn(f"target.admins[{index}]", arn)
        if arn in settings.eks.admins[:index]:
            yield Problem(f"target.admins[{index}]", f"{format_value(arn)} is listed twice. Remove one.")


@register_rule(Topic.ADMINS, target=EKS, reads=(Query.CALLER, Query.CALLER_ROLE))
def check_caller(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """Check that the caller is an IAM user or role. EKS grants cluster access only to these principals, and installing
    the platform requires access."""
    identity = facts.caller
    if identity.is_root:
        yield Problem("caller", f"{identity.arn} is the account's root user, which EKS does not accept. Use an IAM user or role.")
    elif identity.principal_arn is None and not settings.eks.admins:
        fix = "Allow iam:GetRole, or list the role in target.admins."
        yield Problem("caller", f"{identity.arn} is a role session, and its role could not be read from IAM. {fix}")


@register_rule(Topic.ADMINS, target=EKS, reads=(Query.ADMINS,))
def check_admins_exist(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """Check that the admins exist: EKS accepts an access entry only with the exact ARN of an existing principal."""
    for index, arn in enumerate(settings.eks.admins):
        yield from check_principal_exists(f"target.admins[{index}]", arn, facts, facts.admins)
