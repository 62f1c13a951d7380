"""AWS's errors for requests without permission. The errors depend on the service's protocol."""

import base64
import json
import zlib

from localcloud.aws import identity
from localcloud.aws.call import Call
from localcloud.aws.errors import AwsError
from localcloud.aws.permissions.need import Need
from localcloud.aws.policy_evaluation import Request

_JSON_WITH_403 = ("rest-json",)
"""Protocols with status 403, e.g. for EKS's AccessDeniedException:
https://docs.aws.amazon.com/eks/latest/APIReference/CommonErrors.html
Services that use JSON 1.0 or 1.1 return status 400:
https://docs.aws.amazon.com/kms/latest/APIReference/CommonErrors.html
"""


def build_denial_error(call: Call, request: Request, need: Need, reason: str) -> AwsError:
    """Return the error, in the wording of
    https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_access-denied.html.
    """
    where = f" on resource: {request.resource}" if request.resource else ""
    if call.service == "s3":
        return _build_s3_denial_error(call, request, reason)
    sentence = f"User: {_format_caller(call)} is not authorized to perform: {request.action}{where} {reason}"
    if need.error is not None:
        code, message = need.error
        return AwsError(code, f"{message} Encoded authorization failure message: {encode_details(call, request)}", 400)
    protocol = call.service_model.protocol
    if protocol == "ec2":  # https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
        text = f"You are not authorized to perform this operation. {sentence}."
        message = f"{text} Encoded authorization failure message: {encode_details(call, request)}"
        return AwsError("UnauthorizedOperation", message, 403)
    if call.service == "sts":  # https://repost.aws/knowledge-center/iam-assume-role-error
        sentence = sentence.removesuffix(f" {reason}")
    if protocol == "query":
        return AwsError("AccessDenied", sentence, 403)
    return AwsError("AccessDeniedException", sentence, 403 if protocol in _JSON_WITH_403 else 400)


def missing_signature_error(call: Call) -> AwsError:
    """https://docs.aws.amazon.com/IAM/latest/APIReference/CommonErrors.html"""
    protocol = call.service_model.protocol
    if protocol == "ec2":
        return AwsError("AuthFailure", "AWS was not able to validate the provided access credentials", 401)
    code = "MissingAuthenticationToken" if protocol == "query" else "MissingAuthenticationTokenException"
    return AwsError(code, "Request is missing Authentication Token", 403)


def encode_details(call: Call, request: Request) -> str:
    """Return the details of a denial in the encoded form that STS's DecodeAuthorizationMessage accepts.

    Only some of the members that AWS returns are included:
    https://docs.aws.amazon.com/STS/latest/APIReference/API_DecodeAuthorizationMessage.html
    """
    conditions = [{"key": key, "values": value} for key, value in sorted(request.context.items())]
    details = {
        "allowed": False,
        "context": {
            "principal": {"arn": _format_caller(call)},
            "action": request.action,
            "resource": request.resource or "",
            "conditions": {"items": conditions},
        },
    }
    return base64.urlsafe_b64encode(zlib.compress(json.dumps(details).encode())).decode()


def decode_details(text: str) -> str:
    """Return the details from a message that `encode_details` created. Raise AwsError for any other text."""
    try:
        return zlib.decompress(base64.urlsafe_b64decode(text)).decode()
    except (ValueError, zlib.error):
        raise AwsError("InvalidAuthorizationMessageException", "The encoded authorization message is not valid.", 400) from None


def _build_s3_denial_error(call: Call, request: Request, reason: str) -> AwsError:
    if call.request.method == "HEAD":
        return AwsError("403", "Forbidden", 403)
    sentence = (
        f'User: {_format_caller(call)} is not authorized to perform: {request.action} on resource: "{request.resource}" {reason}'
    )
    return AwsError("AccessDenied", sentence, 403)


def _format_caller(call: Call) -> str:
    return identity.caller_arn(call) if call.access_key else "anonymous"
