"""From an STS identity to the user that Kubernetes sees.

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
    """An IAM user or role. Its path is not part of it: an assumed role's ARN does not have it any more, and names are unique."""

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
    """Whom STS named."""

    arn: str
    user_id: str
    access_key: str
    principal: Principal
    session: str | None
    """The session's name, of an assumed role."""


def principal(arn: str) -> Principal | None:
    """Of an IAM user, a role or a role's session; None for what is neither (an account's root, a federated user)."""
    matched = _ARN.fullmatch(arn)
    if matched is None:
        return None
    return Principal(matched["partition"], matched["account"], matched["kind"] or "role", matched["name"] or matched["role"])


def identity(arn: str, user_id: str, access_key: str) -> Identity | None:
    """None for whom no entry can be made."""
    found, matched = principal(arn), _ARN.fullmatch(arn)
    if found is None or matched is None:
        return None
    return Identity(arn, user_id, access_key, found, matched["session"])


def find(entries: Iterable[AccessEntry], who: Principal) -> AccessEntry | None:
    return next((entry for entry in entries if principal(entry.record["principalArn"]) == who), None)


def username(template: str, who: Identity, private_dns_name: Callable[[str], str | None]) -> str | None:
    """The template filled in; None if it asks for an instance's name and the session is none of an instance."""
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
