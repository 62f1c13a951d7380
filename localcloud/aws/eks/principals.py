"""IAM users and roles referenced in a cluster's settings."""

import json
import re
from typing import Any

from localcloud.aws import identity
from localcloud.aws.account import USER_ARN
from localcloud.aws.call import Call

IAM_PRINCIPAL = re.compile(
    r"arn:aws[\w-]*:iam::(?P<account>\d{12}):(?P<kind>role|user)/(?P<path>[\w+=,.@/-]*/)?(?P<name>[\w+=,.@-]+)"
)


def find_role(call: Call, arn: str) -> Any | None:
    """Return moto's role with this ARN, if any."""
    return next((role for role in call.backend_of("iam").roles.values() if role.arn == arn), None)


def principal_exists(call: Call, arn: str) -> bool:
    """Return whether a user or role exists.

    Principals in other accounts are assumed to exist, because the IAM of those accounts is not emulated.
    """
    match = IAM_PRINCIPAL.fullmatch(arn)
    if match is None:
        return False
    if match["account"] != call.account:
        return True
    if match["kind"] == "role":
        return find_role(call, arn) is not None
    return any(user.arn == arn for user in call.backend_of("iam").users.values())


def trusts_service(role: Any, service: str, *actions: str) -> bool:
    """Return whether the trust policy lets a service perform all these actions (sts:AssumeRole, sts:TagSession)."""
    document = role.assume_role_policy_document
    policy = json.loads(document) if isinstance(document, str) else document
    allowed: set[str] = set()
    for statement in _as_list(policy.get("Statement", [])):
        if statement.get("Effect") == "Allow" and _matches_service(statement.get("Principal", {}), service):
            allowed.update(action.lower() for action in _as_list(statement.get("Action", [])))
    return all(allowed & {action.lower(), "sts:*", "*"} for action in actions)


def find_creator_arn(call: Call) -> str:
    """Return the ARN of the calling IAM user or role, which EKS makes the cluster's first admin."""
    session = identity.find_session(call)
    if session is not None:
        return str(session.role_arn)
    arn = identity.caller_arn(call)
    return arn if IAM_PRINCIPAL.fullmatch(arn) else USER_ARN


def _matches_service(principal: Any, service: str) -> bool:
    return isinstance(principal, dict) and service in _as_list(principal.get("Service", []))


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
