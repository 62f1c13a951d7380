"""Maps an STS identity to the user in Kubernetes.

https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html, .../set-custom-username.html
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from localcloud.aws.eks.state import AccessEntry

_ARN = re.compile(
    r"arn:(?P<partition>aws[\w-]*):(?:iam|sts)::(?P<account>\d{12}):"
    r"(?:(?P<kind>user|role)/(?:.*/)?(?P<name>[^/]+)|assumed-role/(?P<role>[^/]+)/(?P<session>[^/]+))"
)


@dataclass(frozen=True)
class Principal:
    """An IAM user or role, without its path: an assumed role's ARN has no path, and names are unique."""

    partition: str
    account: str
    kind: str
    """`user` or `role`."""
    name: str

    @property
    def arn(self) -> str:
        return f"arn:{self.partition}:iam::{self.account}:{self.kind}/{self.name}"


@dataclass(frozen=True)
class Identity:
    """The caller identity reported by STS."""

    arn: str
    user_id: str
    access_key: str
    principal: Principal
    session: str | None
    """Session name of an assumed role."""


def principal(arn: str) -> Principal | None:
    """Return the IAM user or role of an ARN; None for others (an account's root user, a federated user)."""
    matched = _ARN.fullmatch(arn)
    if matched is None:
        return None
    return Principal(matched["partition"], matched["account"], matched["kind"] or "role", matched["name"] or matched["role"])


def identity(arn: str, user_id: str, access_key: str) -> Identity | None:
    """Return the identity; None if no access entry can exist for it."""
    found, matched = principal(arn), _ARN.fullmatch(arn)
    if found is None or matched is None:
        return None
    return Identity(arn, user_id, access_key, found, matched["session"])


def find(entries: Iterable[AccessEntry], who: Principal) -> AccessEntry | None:
    return next((entry for entry in entries if principal(entry.record["principalArn"]) == who), None)


def username(template: str, who: Identity, private_dns_name: Callable[[str], str | None]) -> str | None:
    """Fill in the template; None if it needs an instance's name and the session does not belong to an instance."""
    values: dict[str, str | None] = {
        "AccountID": who.principal.account,
        "SessionName": (who.session or "").replace("@", "-"),
        "SessionNameRaw": who.session or "",
    }
    if "{{EC2PrivateDNSName}}" in template:
        values["EC2PrivateDNSName"] = private_dns_name(who.session or "")
    for name, value in values.items():
        if value is None:
            return None
        template = template.replace(f"{{{{{name}}}}}", value)
    return template
