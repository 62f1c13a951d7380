"""Error messages in the official provider's format: resource, API call and the error returned by AWS."""

from botocore.exceptions import BotoCoreError, ClientError

from localcloud.engine.aws.clients import Cancelled
from localcloud.engine.aws.resource import Failed, Gone, Partial

EXPECTED = (ClientError, BotoCoreError, Cancelled, Failed, Gone, Partial)
"""Expected exceptions. Any other exception is a bug in this provider."""


def format_failure(doing: str, cause: Exception) -> str:
    """Return the full error message.

    Example: `creating EC2 VPC (net): operation error EC2: CreateVpc, ..., api error VpcLimitExceeded: ...`.
    """
    return f"{doing}: {describe_cause(cause)}"


def describe_cause(cause: Exception) -> str:
    """Return the message of a failure, without the resource. If a handler wrapped an AWS error, return the message of
    that error."""
    origin = cause.__cause__
    if isinstance(cause, ClientError):
        return _format_operation_error(cause)
    if isinstance(cause, Failed | Partial) and isinstance(origin, ClientError) and str(cause) == str(origin):
        return _format_operation_error(origin)
    if isinstance(cause, Gone):
        return "couldn't find resource"
    if isinstance(cause, Partial):
        return cause.reason
    if isinstance(cause, EXPECTED):
        return str(cause)
    return f"internal error in the local provider; see its log: {type(cause).__name__}: {cause}"


def _format_operation_error(error: ClientError) -> str:
    """Format the error like the Go SDK's OperationError. Modeled exceptions keep their names; all other exceptions are
    called "api error": https://github.com/aws/smithy-go/blob/main/errors.go
    """
    meta = error.response.get("ResponseMetadata", {})
    details = error.response.get("Error", {})
    code = details.get("Code", "Unknown")
    modelled = type(error).__name__ != "ClientError"
    return (
        f"operation error {meta.get('ServiceId', 'AWS')}: {error.operation_name}, "
        f"https response error StatusCode: {meta.get('HTTPStatusCode', 0)}, RequestID: {meta.get('RequestId', '')}, "
        f"{'' if modelled else 'api error '}{code}: {details.get('Message', '')}"
    )
