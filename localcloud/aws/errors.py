"""Errors as AWS returns them."""

from typing import Any


class AwsError(Exception):
    """AWS error response.

    `code` is the code that botocore reports (`error.response["Error"]["Code"]`). `status` is the HTTP status; None
    means the status in botocore's model, or 400 if the model contains none. Keyword arguments set other members of a
    modeled exception, such as clusterName in EKS.
    """

    def __init__(self, code: str, message: str, status: int | None = None, **members: Any) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status
        for name, value in members.items():
            setattr(self, name, value)


class Refused(Exception):
    """moto's own error response, passed on to the client unchanged."""

    def __init__(self, code: str, message: str, response: tuple[int, dict[str, Any], Any]) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.response = response
