"""Checks of the account's quotas other than vCPUs, and of its service-linked roles."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import ceil
from typing import Final

from infra.checks.model import Answer, no, unknown
from infra.config.messages import all_of
from infra.facts import Facts, FactsError, account_limits
from infra.facts.account_limits import (
    ADDRESSES,
    CLUSTERS,
    GATEWAYS,
    INTERFACES,
    LIMITS,
    NAT_GATEWAYS,
    NODES,
    ROLES,
    SERVICE_ROLES,
    STORAGE,
    VPCS,
    AccountLimits,
    Limit,
)
from infra.facts.clients import Clients, Denied, query
from infra.facts.simulation import simulate
from infra.plan import network_interfaces
from infra.plan.new_nodes import new_volume_gib
from infra.plan.placement import nat_zones
from infra.settings.pools import Spot
from infra.settings.stack import Settings

SERVICE_LINKED: Final = "service-linked roles"
ROLES_OF_EC2_CLUSTER: Final = 2
"""One role for the head node, and one for the workers."""
ROLES_OF_EKS: Final = 3
"""One role each for the cluster, its nodes, and the add-on vpc-cni."""


def answers(settings: Settings, facts: Facts) -> Iterator[Answer]:
    """Compare the new resources that `up` creates with the unused part of the account's quotas."""
    try:
        found = account_limits.read(facts.region, settings.stack, services(settings))
    except (Denied, FactsError) as error:
        yield from (unknown(one.name, str(error)) for one in LIMITS)
        yield unknown(SERVICE_LINKED, str(error))
        return
    for limit, number in wanted(settings, facts, found.own_addresses).items():
        yield judge(limit, number, found, facts.region)
    if not settings.network.is_existing and settings.network.nat != "none":
        yield nat_gateways(nat_zones(settings, facts), found, facts.region)
    yield _service_linked(settings, facts, found)


@dataclass(frozen=True)
class Wanted:
    """How many units of a limited resource the stack still needs: for the next `up`, and with pools at `maxSize`."""

    now: int
    maximum: int
    possible: int = 0
    """Maximum number of further units that an existing stack may need. It may already have some or all of them."""

    @classmethod
    def always(cls, number: int) -> "Wanted":
        return cls(number, number)


def wanted(settings: Settings, facts: Facts, own_addresses: int | None = 0) -> dict[Limit, Wanted]:
    """Return how many of each limited resource the stack still needs; for nodes per node group, the largest `maxSize`.

    If `own_addresses` is None, the result of the address check is unknown. The other numbers then assume that the stack
    already has all of its addresses.
    """
    network, existing = settings.network, facts.existing
    addresses = 0 if network.is_existing else len(nat_zones(settings, facts)) + _head_address(settings)
    own = addresses if own_addresses is None else own_addresses
    found: dict[Limit, Wanted] = {}
    if not network.is_existing and existing.own_vpc is None:
        found[VPCS] = Wanted.always(1)
    if not network.is_existing and network.nat != "none":
        if existing.own_vpc is None or own == 0:
            found[GATEWAYS] = Wanted.always(1)
        found[ADDRESSES] = Wanted.always(max(0, addresses - own))
    interfaces = network_interfaces.growth(settings, facts, max(0, own - _head_address(settings)))
    found[INTERFACES] = Wanted(interfaces.now, interfaces.maximum, interfaces.possible)
    found[STORAGE] = Wanted(*new_volume_gib(settings, facts))
    exists = existing.cluster_version is not None if settings.is_eks else bool(existing.pools)
    found[ROLES] = Wanted(0, 0, _roles_of_pods(settings)) if exists else Wanted.always(_roles(settings))
    if settings.is_eks:
        if not exists:
            found[CLUSTERS] = Wanted.always(1)
        found[NODES] = Wanted.always(max([settings.eks.system.max_size, *(pool.max_size for pool in settings.pools)]))
    return found


def services(settings: Settings) -> frozenset[str]:
    """Return the services that need a service-linked role."""
    found = {"autoscaling.amazonaws.com"}
    if settings.is_eks:
        found |= {"eks.amazonaws.com", "eks-nodegroup.amazonaws.com"}
    if any(isinstance(pool.capacity, Spot) for pool in settings.pools):
        found.add("spot.amazonaws.com")
    if settings.storage.efs != "none" and not settings.storage.efs.is_existing:
        found.add("elasticfilesystem.amazonaws.com")
    if settings.storage.lustre is not None and not settings.storage.lustre.is_existing:
        found.add("fsx.amazonaws.com")
    return frozenset(found)


def judge(limit: Limit, number: Wanted, found: AccountLimits, region: str) -> Answer:
    """Compare the need with one quota. If the quota covers the current size but not `maxSize`, only warn.

    The checks of vCPU quotas do the same.
    """
    used = found.limits[limit]
    if used.allowed is None or used.used is None:
        return unknown(limit.name, used.reason)
    if not number.maximum + number.possible or used.used + number.maximum + number.possible <= used.allowed:
        return Answer(limit.name, "yes")
    request = _request(limit, ceil((used.used + number.maximum + number.possible) / limit.scale), region)
    if limit is NODES:
        need = f"a pool has up to {number.maximum} nodes, but the quota is {used.allowed:g}"
        return no(limit.name, f"{need}. Request an increase (`{request}`) or lower maxSize.")
    unit = f" {limit.unit}" if limit.unit else ""
    have = f"the account uses {used.used} of {used.allowed:g}{unit}"
    if used.used + number.now > used.allowed and number.now:
        return no(limit.name, f"the stack needs {number.maximum}{unit} more, but {have}. Request an increase (`{request}`).")
    if used.used + number.maximum > used.allowed and number.maximum:
        need = f"with every pool at maxSize, the stack needs {number.maximum}{unit} more"
        return Answer(limit.name, "yes", warnings=(f"{need}, but {have}. Request an increase (`{request}`) or lower maxSize.",))
    doubt = f"the stack needs up to {number.possible}{unit} more, depending on how many it already has"
    return unknown(limit.name, f"{doubt}, and {have}. If that exceeds the quota, request an increase (`{request}`).")


def nat_gateways(zones: Sequence[str], found: AccountLimits, region: str) -> Answer:
    """Check that each zone has room for a NAT gateway of the stack."""
    allowed = found.limits[NAT_GATEWAYS].allowed
    if allowed is None or found.limits[NAT_GATEWAYS].used is None:
        return unknown(NAT_GATEWAYS.name, found.limits[NAT_GATEWAYS].reason)
    full = {zone: number for zone in zones if (number := found.nat_gateways.get(zone, 0)) + 1 > allowed}
    if not full:
        return Answer(NAT_GATEWAYS.name, "yes")
    request = _request(NAT_GATEWAYS, max(full.values()) + 1, region)
    have = all_of(f"{zone} already has {number}" for zone, number in full.items())
    return no(NAT_GATEWAYS.name, f"{have}, and the quota is {allowed:g}. Request an increase (`{request}`).")


def _request(limit: Limit, value: int, region: str) -> str:
    return (
        f"aws service-quotas request-service-quota-increase --service-code {limit.service} --quota-code {limit.code} "
        f"--desired-value {value} --region {'us-east-1' if limit is ROLES else region}"
    )


def _head_address(settings: Settings) -> int:
    return 0 if settings.is_eks or not settings.ec2.ssh.cidrs else 1


def _roles(settings: Settings) -> int:
    flow_logs = 0 if settings.network.is_existing else 1
    if not settings.is_eks:
        return ROLES_OF_EC2_CLUSTER + flow_logs
    return ROLES_OF_EKS + flow_logs + _roles_of_pods(settings)


def _roles_of_pods(settings: Settings) -> int:
    """Return the number of IAM roles for pods: one per job namespace, and one each for the autoscaler and EFS."""
    if not settings.is_eks:
        return 0
    return len(settings.platform.namespaces) + settings.platform.autoscaler + (settings.storage.efs != "none")


def _service_linked(settings: Settings, facts: Facts, found: AccountLimits) -> Answer:
    """Check the service-linked roles. During `up`, AWS creates missing ones if the caller may create them."""
    if found.roles_unknown:
        return unknown(SERVICE_LINKED, found.roles_unknown)
    missing = sorted(found.missing_roles)
    try:
        forbidden = _forbidden(facts, services(settings))
    except (Denied, FactsError) as error:
        reason = f"you may not call {error}" if isinstance(error, Denied) else str(error)
        names = f"the account lacks {all_of(SERVICE_ROLES[one] for one in missing)}, and " if missing else ""
        return unknown(SERVICE_LINKED, f"{names}your permission to create service-linked roles could not be checked: {reason}")
    if refused := [service for service in missing if service in forbidden]:
        create = "; ".join(f"aws iam create-service-linked-role --aws-service-name {one}" for one in refused)
        names = all_of(SERVICE_ROLES[one] for one in refused)
        fix = f"Ask an administrator to run `{create}`."
        return no(SERVICE_LINKED, f"the account lacks {names}, which you may not create. {fix}")
    if forbidden:
        roles = f"the service-linked roles of {all_of(sorted(forbidden))} exist"
        return unknown(SERVICE_LINKED, f"{roles}, but you may not call iam:CreateServiceLinkedRole, which AWS may still require")
    made = all_of(SERVICE_ROLES[one] for one in missing)
    return Answer(SERVICE_LINKED, "yes", (f"AWS creates {made}",) if missing else ())


def _forbidden(facts: Facts, wanted: frozenset[str]) -> frozenset[str]:
    """Return the services whose service-linked role the caller may not create.

    Raises Denied or FactsError if the IAM policy simulation fails.
    """
    if facts.caller.is_root:
        return frozenset()
    principal = facts.caller.principal_arn
    if principal is None:
        raise FactsError(f"the user or role behind {facts.caller.arn} could not be found")
    clients = query(facts.region, lambda: Clients(facts.region))
    _ = clients.iam  # creating boto3 clients is not thread-safe
    with ThreadPoolExecutor(len(wanted)) as threads:
        allowed = dict(zip(wanted, threads.map(lambda one: _may_create(clients, facts, principal, one), wanted), strict=True))
    return frozenset(service for service, may in allowed.items() if not may)


def _may_create(clients: Clients, facts: Facts, principal: str, service: str) -> bool:
    resource = f"arn:{facts.partition}:iam::{facts.caller.account}:role/aws-service-role/{service}/{SERVICE_ROLES[service]}"
    context = {"iam:AWSServiceName": service}
    results = query(facts.region, lambda: simulate(clients, principal, ["iam:CreateServiceLinkedRole"], resource, context))
    return all(one.decision != "denied" for one in results)
