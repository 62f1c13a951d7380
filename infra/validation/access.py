"""Access to the Kubernetes API: from which addresses, and for which IAM users and roles."""

import re
from collections.abc import Iterator

from infra.config.messages import shown
from infra.config.problems import Problem, warning
from infra.facts.model import Facts
from infra.settings.stack import Settings
from infra.validation.cidrs import documentation, open_to_everyone, parsed

MOST_CIDRS = 40
"""https://docs.aws.amazon.com/eks/latest/userguide/service-quotas.html"""

_PRINCIPAL = re.compile(r"arn:aws[a-z-]*:iam::[0-9]{12}:(user|role)/[\w+=,.@/-]+")
_SESSION = re.compile(r"arn:(aws[a-z-]*):sts::([0-9]{12}):assumed-role/([^/]+)/.*")
_EXAMPLE = "arn:aws:iam::123456789012:role/Admin"


def public_endpoint(settings: Settings) -> Iterator[Problem]:
    access, path = settings.eks.endpoint_access, "target.endpointAccess"
    if access.public and not access.public_cidrs:
        yield Problem(f"{path}.publicCidrs", "is missing, but public is true; list the addresses to allow, like [203.0.113.0/24]")
    if access.public is False and access.public_cidrs:
        yield Problem(f"{path}.public", "is false, but publicCidrs lists addresses; remove one of them")


def public_cidrs(settings: Settings) -> Iterator[Problem]:
    access, path = settings.eks.endpoint_access, "target.endpointAccess.publicCidrs"
    if len(access.public_cidrs) > MOST_CIDRS:
        yield Problem(path, f"has {len(access.public_cidrs)} entries; EKS accepts at most {MOST_CIDRS}")
    for index, text in enumerate(access.public_cidrs):
        where, network = f"{path}[{index}]", parsed(text, "203.0.113.0/24")
        if isinstance(network, str):
            yield Problem(where, network)
        elif any(network.subnet_of(private) for private in _PRIVATE):
            yield Problem(where, f"{shown(text)} is a private range, which reaches the private endpoint; remove it")
        if text in access.public_cidrs[:index]:
            yield Problem(where, f"{shown(text)} is listed twice; remove one")
    if not access.allow_anywhere:
        yield from open_to_everyone(path, access.public_cidrs, "list your own addresses, or set allowAnywhere: true")
    yield from documentation(path, access.public_cidrs)


_PRIVATE = tuple(
    network for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16") if not isinstance(network := parsed(text, text), str)
)


def admins(settings: Settings) -> Iterator[Problem]:
    for index, arn in enumerate(settings.eks.admins):
        where = f"target.admins[{index}]"
        session = _SESSION.fullmatch(arn)
        if session:
            role = f"arn:{session[1]}:iam::{session[2]}:role/{session[3]}"
            yield Problem(where, f"{shown(arn)} is a session of a role; write the role, like {role}")
        elif not _PRINCIPAL.fullmatch(arn):
            yield Problem(where, f"{shown(arn)} is not the ARN of an IAM user or role; write one like {_EXAMPLE}")
        if arn in settings.eks.admins[:index]:
            yield Problem(where, f"{shown(arn)} is listed twice; remove one")


def caller(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """EKS gives access to users and roles. The caller must be one to install anything in the cluster."""
    identity = facts.caller
    if identity.is_root:
        yield Problem("caller", f"{identity.arn} is the account's root user, which EKS gives no access; use an IAM user or role")
    elif identity.principal_arn is None and not settings.eks.admins:
        fix = "allow it iam:GetRole, or list its role in target.admins"
        yield Problem("caller", f"{identity.arn} is a session of a role that IAM would not describe; {fix}")


def admins_exist(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """EKS accepts an access entry only for a principal that exists, by its exact ARN."""
    for index, arn in enumerate(settings.eks.admins):
        principal = _PRINCIPAL.fullmatch(arn)
        if principal is None:
            continue
        where, (_, partition, _, _, account, _) = f"target.admins[{index}]", arn.split(":", 5)
        if partition != facts.partition:
            fix = f"write an ARN that begins with arn:{facts.partition}:"
            yield Problem(where, f"{shown(arn)} is in partition {partition}, but {facts.region} is in {facts.partition}; {fix}")
        elif account != facts.caller.account:
            elsewhere = f"is in account {account}, not in {facts.caller.account}, so it was not checked"
            yield warning(where, f"{shown(arn)} {elsewhere}; make sure that it exists, EKS refuses the ARN otherwise")
        elif arn in facts.not_found:
            yield Problem(where, f"{shown(arn)} does not exist in account {account}; create the {principal[1]}, or remove it")
        elif facts.admins.get(arn, arn) != arn:
            yield Problem(where, f"{shown(arn)} has another path in IAM; write {facts.admins[arn]}")
