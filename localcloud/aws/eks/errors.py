"""Errors as EKS returns them.

https://docs.aws.amazon.com/eks/latest/APIReference/CommonErrors.html and each action's page.
"""

from localcloud.aws.errors import AwsError


def invalid_parameter(message: str, **members: str) -> AwsError:
    """Return the error. `members` are the exception's other members: clusterName, nodegroupName, addonName."""
    return AwsError("InvalidParameterException", message, None, **members)


def invalid_request(message: str, **members: str) -> AwsError:
    return AwsError("InvalidRequestException", message, None, **members)


def in_use(message: str, **members: str) -> AwsError:
    return AwsError("ResourceInUseException", message, None, **members)


def not_found(message: str, **members: str) -> AwsError:
    return AwsError("ResourceNotFoundException", message, None, **members)


def not_emulated(what: str) -> AwsError:
    """Return the error for an EKS feature that the local cloud lacks. Such features are rejected, never ignored."""
    return AwsError("NotImplementedInLocalCloud", f"The local EKS does not support {what}.", status=400)
