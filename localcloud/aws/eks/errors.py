"""Errors as EKS returns them.

https://docs.aws.amazon.com/eks/latest/APIReference/CommonErrors.html and each action's page.
"""

from localcloud.aws.errors import AwsError


def invalid_parameter(message: str, **members: str) -> AwsError:
    """`members` are those of the modeled exception: clusterName, nodegroupName, addonName."""
    return AwsError("InvalidParameterException", message, None, **members)


def invalid_request(message: str, **members: str) -> AwsError:
    return AwsError("InvalidRequestException", message, None, **members)


def in_use(message: str, **members: str) -> AwsError:
    return AwsError("ResourceInUseException", message, None, **members)


def not_found(message: str, **members: str) -> AwsError:
    return AwsError("ResourceNotFoundException", message, None, **members)


def not_emulated(what: str) -> AwsError:
    """Error for EKS features that the local cloud lacks. They are rejected, never ignored."""
    return AwsError("NotImplementedInLocalCloud", f"The local cloud's EKS has no {what}.", status=400)
