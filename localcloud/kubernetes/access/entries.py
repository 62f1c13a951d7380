"""Maps an STS identity to a Kubernetes user, using the cluster's access entries.

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
    """An IAM user or role. The principal's IAM path is left out: names are unique, and the ARN of an assumed role has no path."""

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
    """Caller identity as reported by STS."""

    arn: str
    user_id: str
    access_key: str
    principal: Principal
    session: str | None
    """Session name of an assumed role; None for an IAM user."""


def parse_principal(arn: str) -> Principal | None:
    """Return the IAM user or role that an ARN identifies; None for other ARNs, such as the root user's."""
    matched = _ARN.fullmatch(arn)
    if matched is None:
        return None
    return Principal(matched["partition"], matched["account"], matched["kind"] or "role", matched["name"] or matched["role"])


def parse_identity(arn: str, user_id: str, access_key: str) -> Identity | None:
    """Return the caller's identity; None unless the caller is an IAM user or role, because only users and roles can
    have access entries."""
    caller, matched = parse_principal(arn), _ARN.fullmatch(arn)
    if caller is None or matched is None:
        return None
    return Identity(arn, user_id, access_key, caller, matched["session"])


def find_access_entry(entries: Iterable[AccessEntry], who: Principal) -> AccessEntry | None:
    return next((entry for entry in entries if parse_principal(entry.record["principalArn"]) == who), None)


def render_username(template: str, who: Identity, private_dns_name: Callable[[str], str | None]) -> str | None:
    """Return the Kubernetes user name that an access entry's template gives this identity. Return None if the template
    needs the DNS name of an instance that does not exist."""
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
