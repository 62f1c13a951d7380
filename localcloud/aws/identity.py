"""Identity of the caller. Requests with unknown access keys get AWS's errors; signatures are not verified."""

import json
from collections.abc import Mapping
from typing import Any

from moto.core.utils import utcnow

from localcloud.aws.account import USER_ARN
from localcloud.aws.call import Call, backend_of
from localcloud.aws.errors import AwsError

_UNSIGNED = {("sts", "AssumeRoleWithWebIdentity"), ("sts", "AssumeRoleWithSAML")}


def check(call: Call) -> None:
    """Reject a request whose access key is unknown, inactive or expired."""
    if not call.access_key or (call.service, call.operation) in _UNSIGNED:
        return  # anonymous request: only S3 accepts it, if the bucket policy allows it
    key = backend_of("iam", call.account, call.region).access_keys.get(call.access_key)
    if key is None or key.status != "Active":
        raise _unknown_key(call)
    session = session_of(call)
    if session is not None and session.expiration < utcnow():
        raise AwsError("ExpiredToken", "The security token included in the request is expired", 403)


def session_of(call: Call) -> Any | None:
    """Return the role session whose credentials signed the request, if any."""
    return backend_of("sts", call.account, call.region).get_assumed_role_from_access_key(call.access_key)


def caller_arn(call: Call) -> str:
    """Return the caller's ARN, as STS reports it."""
    _, arn, _ = backend_of("sts", call.account, call.region).get_caller_identity(call.access_key, call.region)
    return str(arn)


def principal_arn(call: Call) -> str:
    """Return the ARN of the IAM user or role behind the caller, as used in policies."""
    session = session_of(call)
    return str(session.role_arn) if session is not None else caller_arn(call)


def policies_of(call: Call) -> list[dict[str, Any]] | None:
    """Return the caller's identity policies, or None for the account's administrator and for anonymous callers."""
    if not call.access_key or principal_arn(call) == USER_ARN:
        return None
    iam = backend_of("iam", call.account, call.region)
    session = session_of(call)
    entity = iam.get_role_by_arn(session.role_arn) if session is not None else iam.get_user_from_access_key_id(call.access_key)
    if entity is None:
        return []
    attached = [policy.versions for policy in entity.managed_policies.values()]
    documents = [*entity.policies.values(), *(_default_version(versions) for versions in attached)]
    return [json.loads(document) for document in documents]


def _default_version(versions: list[Any]) -> str:
    return str(next(version.document for version in versions if version.is_default))


def context_of(call: Call) -> dict[str, str]:
    """Return the condition keys about the caller.

    https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html
    """
    user_id, _, account = backend_of("sts", call.account, call.region).get_caller_identity(call.access_key, call.region)
    arn = principal_arn(call)
    context = {
        "aws:userid": user_id,
        "aws:principalarn": arn,
        "aws:principalaccount": account,
        "aws:principaltype": "AssumedRole",
    }
    session = session_of(call)
    if session is None:
        return context | {"aws:username": arn.rsplit("/", 1)[-1], "aws:principaltype": "User"}
    return context | {f"aws:principaltag/{key.lower()}": value for key, value in tags_of(session).items()}


def tags_of(session: Any) -> dict[str, str]:
    """Session tags: https://docs.aws.amazon.com/IAM/latest/UserGuide/id_session-tags.html"""
    return dict(getattr(session, "local_cloud_tags", {}))


def tag(session: Any, tags: Mapping[str, str]) -> None:
    session.local_cloud_tags = dict(tags)


def _unknown_key(call: Call) -> AwsError:
    """Return AWS's error for an unknown key, which depends on the protocol.

    https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html (EC2),
    https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html (S3),
    https://docs.aws.amazon.com/STS/latest/APIReference/CommonErrors.html (the rest)
    """
    protocol = call.service_model.protocol
    if call.service == "s3":
        return AwsError("InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records.", 403)
    if protocol == "ec2":
        return AwsError("AuthFailure", "AWS was not able to validate the provided access credentials", 401)
    code = "InvalidClientTokenId" if protocol == "query" else "UnrecognizedClientException"
    return AwsError(code, "The security token included in the request is invalid.", 403)
