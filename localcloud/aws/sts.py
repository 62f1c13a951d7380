"""Security Token Service. Callers can assume a role only if it exists and trusts them."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from moto.iam.exceptions import NotFoundException

from localcloud.aws import identity, policy_documents
from localcloud.aws.call import Call, backend_of
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import operation


class NotTrusted(Exception):
    """The role does not exist or does not trust the principal. The message is the role's ARN."""


def install() -> None:
    """Do nothing: importing this module has already registered its operations."""


@operation("sts", "AssumeRole")
def _assume_role(call: Call) -> dict[str, Any]:
    """https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html

    AWS returns the same error for a missing role and for one that does not trust the caller.
    """
    arn = call.params["RoleArn"]
    caller = identity.caller_arn(call)
    refused = AwsError("AccessDenied", f"User: {caller} is not authorized to perform: sts:AssumeRole on resource: {arn}", 403)
    try:
        role = backend_of("iam", arn.split(":")[4], call.region).get_role_by_arn(arn)
    except (IndexError, KeyError, NotFoundException):
        raise refused from None
    tags = {tag["Key"]: tag["Value"] for tag in call.params.get("Tags", [])}
    if not trusts(role, ("AWS", identity.principal_arn(call)), tags):
        raise refused
    seconds = call.params.get("DurationSeconds", 3600)
    if not 900 <= seconds <= role.max_session_duration:
        raise AwsError("ValidationError", "The requested DurationSeconds exceeds the MaxSessionDuration set for this role.")
    answer = call.moto()
    session = backend_of("sts", arn.split(":")[4], call.region).get_assumed_role_from_access_key(
        answer["Credentials"]["AccessKeyId"]
    )
    identity.tag(session, tags)
    return answer


def trusts(role: Any, principal: tuple[str, str], tags: Mapping[str, str], context: Mapping[str, str] | None = None) -> bool:
    """Return whether the role's trust policy allows the principal to open a session with these tags.

    Tags require a separate action: https://docs.aws.amazon.com/IAM/latest/UserGuide/id_session-tags.html
    """
    trust = policy_documents.parse(role.assume_role_policy_document)
    known = {**(context or {}), **{f"aws:requesttag/{key.lower()}": value for key, value in tags.items()}}
    needed = ("sts:AssumeRole", "sts:TagSession") if tags else ("sts:AssumeRole",)
    return all(
        policy_documents.decide(trust, policy_documents.Request(principal, action, context=known)) == "Allow" for action in needed
    )


def open_session(
    region: str,
    arn: str,
    principal: tuple[str, str],
    *,
    name: str,
    lifetime: timedelta,
    tags: Mapping[str, str],
    context: Mapping[str, str],
) -> Any:
    """Create a session for an AWS service that assumes the role, and return moto's object for it.

    Raise NotTrusted if the role cannot be assumed. Call this with the gateway's lock held.
    """
    account = arn.split(":")[4]
    role = next((role for role in backend_of("iam", account, region).roles.values() if role.arn == arn), None)
    if role is None or not trusts(role, principal, tags, context):
        raise NotTrusted(arn)
    session = backend_of("sts", account, region).assume_role(
        region_name=region,
        role_session_name=name,
        role_arn=arn,
        policy=None,
        duration=int(lifetime.total_seconds()),
        external_id=context.get("sts:externalid"),
    )
    identity.tag(session, tags)
    return session


@operation("sts", "GetSessionToken")
def _get_session_token(call: Call) -> dict[str, Any]:
    """Issue a temporary access key and register it. moto's own key would not be recognized in later calls."""
    iam = call.backend_of("iam")
    user = iam.get_user_from_access_key_id(call.access_key)
    if user is None:
        raise AwsError("AccessDenied", "Cannot call GetSessionToken with session credentials", 403)
    answer = call.moto()
    key = iam.create_temp_access_key()
    key.user_name = user.name
    answer["Credentials"]["AccessKeyId"] = key.access_key_id
    answer["Credentials"]["SecretAccessKey"] = key.secret_access_key
    return answer


@operation("sts", "GetCallerIdentity")
def _get_caller_identity(call: Call) -> dict[str, Any]:
    """Return the caller's identity, also for temporary keys and presigned URLs.

    moto does not know the owner of a GetSessionToken key or the signer of a URL.
    """
    if not call.access_key:
        return call.moto()
    key = call.backend_of("iam").access_keys.get(call.access_key)
    if key is not None and key.user_name and call.access_key.startswith("ASIA"):
        user = call.backend_of("iam").users[key.user_name]
        return {"UserId": user.id, "Account": call.account, "Arn": user.arn}
    user_id, arn, account = call.backend.get_caller_identity(call.access_key, call.region)
    return {"UserId": user_id, "Account": account, "Arn": arn}
