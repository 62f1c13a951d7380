"""Identity of the caller. Requests with unknown access keys or wrong signatures fail with AWS's errors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moto.backends import get_backend
from moto.core.request import Request
from moto.core.utils import utcnow

from localcloud.aws import signatures
from localcloud.aws.account import find_account
from localcloud.aws.call import Call, backend_of
from localcloud.aws.errors import AwsError
from localcloud.aws.policy_evaluation import Policy, parse_document

_OTHER_CREDENTIALS = {
    ("s3", "PostObject"): ("AccessDenied", "The local cloud does not verify the policies of HTML forms.", 403),
    ("sts", "AssumeRoleWithSAML"): ("InvalidIdentityToken", "The local cloud has no identity providers.", 400),
    ("sts", "AssumeRoleWithWebIdentity"): ("InvalidIdentityToken", "The local cloud has no identity providers.", 400),
}
"""Maps each operation that AWS serves unsigned because the request contains other credentials, to the code, message and
status of the error."""


def authenticate(call: Call) -> None:
    """Reject a request whose access key is unknown, inactive or expired, whose signature is wrong, or that is signed for an
    unknown Region.

    Only signatures of requests to the server are verified: clients in this process have the keys anyway.
    """
    _check_region(call)
    if error := _OTHER_CREDENTIALS.get((call.service, call.operation)):
        raise AwsError(*error)
    if not call.access_key:
        return
    key = backend_of("iam", call.account, call.region).access_keys.get(call.access_key)
    if key is None or key.status != "Active":
        raise _build_unknown_key_error(call)
    session = find_session(call)
    if session is not None and session.expiration < utcnow():
        raise AwsError("ExpiredToken", "The security token included in the request is expired", 403)
    if (signature := signatures.read_signature(call.request)) is None or not call.request.from_wsgi_server:
        return
    if signature.session_token != find_session_token(key, session):
        raise _build_unknown_key_error(call)
    if not signature.is_valid(call.request, key.secret_access_key):
        raise _build_wrong_signature_error(call)
    if signature.is_expired():
        raise _build_expired_signature_error(call)


def is_signature_valid(request: Request) -> bool:
    """Return whether a valid key signed a request to an operation that botocore does not know."""
    if not request.from_wsgi_server:
        return True
    if (signature := signatures.read_signature(request)) is None or signature.is_expired():
        return False
    account, region = find_account(signature.access_key), signature.region
    key = backend_of("iam", account, region).access_keys.get(signature.access_key)
    session = backend_of("sts", account, region).get_assumed_role_from_access_key(signature.access_key)
    if key is None or key.status != "Active" or (session is not None and session.expiration < utcnow()):
        return False
    return signature.session_token == find_session_token(key, session) and signature.is_valid(request, key.secret_access_key)


def find_session_token(key: Any, session: Any | None) -> str | None:
    """Return the session token that belongs to an access key; None for a long-term key."""
    return session.session_token if session is not None else getattr(key, "session_token", None)


def _check_region(call: Call) -> None:
    """https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-troubleshooting.html"""
    if call.region not in get_backend("ec2")[call.account]:
        raise AwsError("SignatureDoesNotMatch", f"Credential should be scoped to a valid Region, not '{call.region}'.", 403)


def find_session(call: Call) -> Any | None:
    """Return the role session whose credentials signed the request, if any."""
    return backend_of("sts", call.account, call.region).get_assumed_role_from_access_key(call.access_key)


def caller_arn(call: Call) -> str:
    """Return the caller's ARN, as STS reports it."""
    _, arn, _ = backend_of("sts", call.account, call.region).get_caller_identity(call.access_key, call.region)
    return str(arn)


def principal_arn(call: Call) -> str:
    """Return the ARN of the IAM user or role behind the caller, as used in policies."""
    session = find_session(call)
    return str(session.role_arn) if session is not None else caller_arn(call)


@dataclass(frozen=True)
class Policies:
    """Policies that apply to a caller. A permissions boundary or session policy limits what the identity policies
    allow.
    """

    identity: tuple[Policy, ...] = ()
    boundary: tuple[Policy, ...] = ()
    session: tuple[Policy, ...] = ()


def find_caller_policies(call: Call) -> Policies:
    """Return the policies of the calling role or user, including those of the user's groups."""
    entity = _find_caller(call)
    if entity is None:
        return Policies()
    iam, session = backend_of("iam", call.account, call.region), find_session(call)
    groups = [group for group in iam.groups.values() if session is None and entity in group.users]
    documents = [text for holder in (entity, *groups) for text in list_policy_documents(holder)]
    limit = getattr(entity, "permissions_boundary_arn", None)
    return Policies(
        identity=tuple(map(parse_document, documents)),
        boundary=(parse_document(_read_default_version(iam.managed_policies[limit])),) if limit else (),
        session=(parse_document(session.policy),) if session is not None and session.policy else (),
    )


def find_role_policies(iam: Any, role: Any) -> Policies:
    """Return the policies of a role that has no session yet."""
    limit = getattr(role, "permissions_boundary_arn", None)
    boundary = (parse_document(_read_default_version(iam.managed_policies[limit])),) if limit else ()
    return Policies(identity=tuple(map(parse_document, list_policy_documents(role))), boundary=boundary)


def list_policy_documents(entity: Any) -> list[str]:
    """Return the inline and attached policies of a role, user or group."""
    return [*entity.policies.values(), *(_read_default_version(policy) for policy in entity.managed_policies.values())]


def _find_caller(call: Call) -> Any | None:
    """Return the calling role or user."""
    if not call.access_key:
        return None
    iam, session = backend_of("iam", call.account, call.region), find_session(call)
    if session is not None:
        return next((role for role in iam.roles.values() if role.arn == session.role_arn), None)
    key = iam.access_keys.get(call.access_key)
    return iam.users.get(key.user_name) if key is not None else None


def _read_default_version(policy: Any) -> str:
    return str(next(version.document for version in policy.versions if version.is_default))


def caller_condition_keys(call: Call) -> dict[str, str]:
    """Return the condition keys that describe the caller.

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
    session = find_session(call)
    if session is None:
        return context | {"aws:username": arn.rsplit("/", 1)[-1], "aws:principaltype": "User"}
    tags = {**read_role_tags(_find_caller(call)), **read_session_tags(session)}
    return context | {f"aws:principaltag/{key.lower()}": value for key, value in tags.items()}


def read_session_tags(session: Any) -> dict[str, str]:
    """Session tags: https://docs.aws.amazon.com/IAM/latest/UserGuide/id_session-tags.html"""
    return dict(getattr(session, "local_cloud_tags", {}))


def read_role_tags(entity: Any | None) -> dict[str, str]:
    """Return the tags of a role. moto stores the tags of users elsewhere, so they do not become condition keys."""
    tags = getattr(entity, "tags", None) or {}
    return {tag["Key"]: tag["Value"] for tag in (tags.values() if isinstance(tags, dict) else tags)}


def set_session_tags(session: Any, tags: Mapping[str, str]) -> None:
    session.local_cloud_tags = dict(tags)


def set_session_subnets(session: Any, subnets: Sequence[str]) -> None:
    """Record the IDs of the subnets from which the session's calls come."""
    session.local_cloud_subnets = tuple(subnets)


def read_session_subnets(session: Any) -> tuple[str, ...]:
    """Return the IDs of the subnets from which the session's calls come; empty if unknown."""
    return tuple(getattr(session, "local_cloud_subnets", ()))


def _build_unknown_key_error(call: Call) -> AwsError:
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


def _build_wrong_signature_error(call: Call) -> AwsError:
    """Return AWS's error for a wrong signature. The sources are the same as those of `_build_unknown_key_error`."""
    protocol = call.service_model.protocol
    text = "The request signature we calculated does not match the signature you provided."
    if protocol == "ec2":
        return _build_unknown_key_error(call)
    if call.service == "s3":
        return AwsError("SignatureDoesNotMatch", f"{text} Check your key and signing method.", 403)
    code = "SignatureDoesNotMatch" if protocol == "query" else "InvalidSignatureException"
    return AwsError(code, f"{text} Check your AWS Secret Access Key and signing method.", 403)


def _build_expired_signature_error(call: Call) -> AwsError:
    """Return AWS's error for a request that was signed too long ago or in the future."""
    protocol = call.service_model.protocol
    if protocol == "ec2":
        return AwsError("RequestExpired", "Request has expired.", 400)
    if call.service == "s3":
        return AwsError("RequestTimeTooSkewed", "The difference between the request time and the current time is too large.", 403)
    code = "SignatureDoesNotMatch" if protocol == "query" else "InvalidSignatureException"
    return AwsError(code, "Signature expired: the request was not signed within the last 15 minutes.", 403)
