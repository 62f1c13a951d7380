"""Errors as EKS returns them.

https://docs.aws.amazon.com/eks/latest/APIReference/CommonErrors.html and each action's page.
"""

from localcloud.aws import quotas
from localcloud.aws.errors import AwsError


def build_invalid_parameter_error(message: str, **members: str) -> AwsError:
    """Return an InvalidParameterException. `members` are the error's additional members: clusterName, nodegroupName or
    addonName."""
    return AwsError("InvalidParameterException", message, None, **members)


def build_invalid_request_error(message: str, **members: str) -> AwsError:
    return AwsError("InvalidRequestException", message, None, **members)


def build_in_use_error(message: str, **members: str) -> AwsError:
    return AwsError("ResourceInUseException", message, None, **members)


def check_quota(code: str, what: str, present: int, **members: str) -> None:
    """Raise EKS's error if another resource would exceed the quota. `what` names the resource type in the error text,
    which is NOT VERIFIED (2026-11-23)."""
    limit = quotas.get_quota_value(code)
    if present >= limit:
        raise AwsError("ResourceLimitExceededException", f"{what} limit exceeded: {limit:g}", None, **members)


def build_not_found_error(message: str, **members: str) -> AwsError:
    return AwsError("ResourceNotFoundException", message, None, **members)


def build_not_emulated_error(what: str) -> AwsError:
    """Return the error for an EKS feature that the local cloud lacks. Such features are rejected, never ignored."""
    return AwsError("NotImplementedInLocalCloud", f"The local EKS does not support {what}.", status=400)
