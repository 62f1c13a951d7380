"""Who reaches the Kubernetes API, and as whom."""

import re
from collections.abc import Iterator

from infra.config.messages import shown
from infra.config.problems import Problem
from infra.facts.model import Facts
from infra.settings.stack import Settings
from infra.validation.cidrs import parsed

MOST_CIDRS = 40
"""https://docs.aws.amazon.com/eks/latest/userguide/service-quotas.html"""

_PRINCIPAL = re.compile(r"arn:aws[a-z-]*:iam::[0-9]{12}:(user|role)/[\w+=,.@/-]+")
_SESSION = re.compile(r"arn:(aws[a-z-]*):sts::([0-9]{12}):assumed-role/([^/]+)/.*")
_EXAMPLE = "arn:aws:iam::123456789012:role/Admin"


def public_endpoint(settings: Settings) -> Iterator[Problem]:
    access, path = settings.eks.endpoint_access, "target.endpointAccess"
    if access.public and not access.public_cidrs:
        yield Problem(f"{path}.publicCidrs", "is missing, but public is true; name who may reach it, like [203.0.113.0/24]")
    if access.public is False and access.public_cidrs:
        yield Problem(f"{path}.public", "is false, but publicCidrs names somebody; remove one of them")


def public_cidrs(settings: Settings) -> Iterator[Problem]:
    access, path = settings.eks.endpoint_access, "target.endpointAccess.publicCidrs"
    if len(access.public_cidrs) > MOST_CIDRS:
        yield Problem(path, f"has {len(access.public_cidrs)} entries; EKS takes {MOST_CIDRS}")
    for index, text in enumerate(access.public_cidrs):
        where, network = f"{path}[{index}]", parsed(text, "203.0.113.0/24")
        if isinstance(network, str):
            yield Problem(where, network)
        elif network.prefixlen == 0:
            if not access.allow_anywhere:
                yield Problem(where, f"{shown(text)} is everybody; name your own addresses, or set allowAnywhere: true")
        elif any(network.subnet_of(private) for private in _PRIVATE):
            yield Problem(where, f"{shown(text)} is private; from there the private endpoint is reached, remove it")
        if text in access.public_cidrs[:index]:
            yield Problem(where, f"{shown(text)} is named twice; remove one")


_PRIVATE = tuple(
    network for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16") if not isinstance(network := parsed(text, text), str)
)


def admins(settings: Settings) -> Iterator[Problem]:
    for index, arn in enumerate(settings.eks.admins):
        where = f"target.admins[{index}]"
        session = _SESSION.fullmatch(arn)
        if session:
            role = f"arn:{session[1]}:iam::{session[2]}:role/{session[3]}"
            yield Problem(where, f"{shown(arn)} is a session; write its role, like {role}")
        elif not _PRINCIPAL.fullmatch(arn):
            yield Problem(where, f"{shown(arn)} is not the ARN of an IAM user or role; write one like {_EXAMPLE}")
        if arn in settings.eks.admins[:index]:
            yield Problem(where, f"{shown(arn)} is named twice; remove one")


def caller(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """EKS gives access to users and roles; the caller must be one to install anything in the cluster."""
    who = facts.caller
    if who.is_root:
        yield Problem("caller", f"{who.arn} is the account's root, to which EKS gives no access; use an IAM user or role")
    elif who.principal_arn is None and not settings.eks.admins:
        way_out = "allow it iam:GetRole, or name its role in target.admins"
        yield Problem("caller", f"{who.arn} is a session of a role that cannot be looked up; {way_out}")
