"""Errors as AWS gives them."""

from typing import Any


class AwsError(Exception):
    """A call that AWS refuses.

    `code` is the code that botocore reports (`error.response["Error"]["Code"]`). `status` is the HTTP status: None takes the
    one of botocore's model, or 400. Further members of a modelled exception (EKS: clusterName=...) are keyword arguments.
    """

    def __init__(self, code: str, message: str, status: int | None = None, **members: Any) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status
        for name, value in members.items():
            setattr(self, name, value)


class Refused(Exception):
    """moto's own refusal of a call, on its way to the client unchanged."""

    def __init__(self, code: str, message: str, response: tuple[int, dict[str, Any], Any]) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.response = response
