"""Security Token Service. Callers can assume a role only if it exists and trusts them."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from localcloud.aws import identity
from localcloud.aws.call import Call, backend_of
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import operation
from localcloud.aws.permissions import denials
from localcloud.aws.policy_evaluation import Request, allows, parse_document


class NotTrusted(Exception):
    """The role does not exist or does not trust the principal. The message is the role's ARN."""


def extend_moto() -> None:
    """Do nothing: importing this module has already registered its operations."""


@operation("sts", "AssumeRole")
def _assume_role(call: Call) -> dict[str, Any]:
    """https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html

    The permission check has already ensured that the role exists and trusts the caller.
    """
    arn = call.params["RoleArn"]
    role = backend_of("iam", arn.split(":")[4], call.region).get_role_by_arn(arn)
    tags = {tag["Key"]: tag["Value"] for tag in call.params.get("Tags", [])}
    seconds = call.params.get("DurationSeconds", 3600)
    if not 900 <= seconds <= role.max_session_duration:
        raise AwsError("ValidationError", "The requested DurationSeconds exceeds the MaxSessionDuration set for this role.")
    answer = call.moto()
    session = backend_of("sts", arn.split(":")[4], call.region).get_assumed_role_from_access_key(
        answer["Credentials"]["AccessKeyId"]
    )
    identity.set_session_tags(session, tags)
    return answer


def trusts(role: Any, principal: tuple[str, str], tags: Mapping[str, str], context: Mapping[str, str] | None = None) -> bool:
    """Return whether the role's trust policy allows the principal to open a session with these tags.

    Tags require a separate action: https://docs.aws.amazon.com/IAM/latest/UserGuide/id_session-tags.html
    """
    trust = parse_document(role.assume_role_policy_document)
    condition_keys = {**(context or {}), **{f"aws:requesttag/{key.lower()}": value for key, value in tags.items()}}
    needed = ("sts:AssumeRole", "sts:TagSession") if tags else ("sts:AssumeRole",)
    return all(allows(Request(action, context=condition_keys, principal=dict([principal])), trust) for action in needed)


def open_session(
    region: str,
    arn: str,
    principal: tuple[str, str],
    *,
    name: str,
    lifetime: timedelta,
    tags: Mapping[str, str],
    context: Mapping[str, str],
    subnets: Sequence[str] = (),
) -> Any:
    """Create a session for an AWS service that assumes the role, and return moto's object for it.

    `subnets` are the IDs of the subnets from which the session's calls come. Raise NotTrusted if the role cannot be
    assumed. Call this with the gateway's lock held.
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
    identity.set_session_tags(session, tags)
    identity.set_session_subnets(session, subnets)
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
    key.session_token = answer["Credentials"]["SessionToken"]
    return answer


@operation("sts", "GetCallerIdentity")
def _get_caller_identity(call: Call) -> dict[str, Any]:
    """Return the caller's identity, also for temporary keys and presigned URLs.

    moto cannot determine the owner of a GetSessionToken key or the signer of a URL.
    """
    key = call.backend_of("iam").access_keys.get(call.access_key)
    if key is not None and key.user_name and call.access_key.startswith("ASIA"):
        user = call.backend_of("iam").users[key.user_name]
        return {"UserId": user.id, "Account": call.account, "Arn": user.arn}
    user_id, arn, account = call.backend.get_caller_identity(call.access_key, call.region)
    return {"UserId": user_id, "Account": account, "Arn": arn}


@operation("sts", "DecodeAuthorizationMessage")
def _decode_authorization_message(call: Call) -> dict[str, Any]:
    """https://docs.aws.amazon.com/STS/latest/APIReference/API_DecodeAuthorizationMessage.html"""
    return {"DecodedMessage": denials.decode_details(call.params["EncodedMessage"])}
