"""Tables of calls that AWS rejects: the bad input, AWS's error code, and the page that documents it.

CAPITALS = {"Bucket": "Capitals"}
REFUSALS = [Refusal("a name with capitals", "create_bucket", CAPITALS, "InvalidBucketName", "https://...")]

@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_s3_rejects_invalid_requests(aws: Client, refusal: Refusal) -> None:
    refusal.check(aws("s3"))
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from botocore.exceptions import ClientError


@dataclass(frozen=True)
class Refusal:
    what: str
    operation: str
    """Name of the boto3 client's method."""
    params: Mapping[str, Any] | Callable[..., Mapping[str, Any]]
    """The call's parameters, or a function that builds them from the test's resources (the keyword arguments of
    `check`).
    """
    code: str
    source: str
    """URL of the AWS page that documents the error."""
    message: str = ""
    """Text that the error message must contain."""

    def __str__(self) -> str:
        return f"{self.operation}: {self.what}"

    def check(self, client: Any, **resources: Any) -> None:
        params = self.params(**resources) if callable(self.params) else self.params
        with pytest.raises(ClientError) as caught:
            getattr(client, self.operation)(**params)
        error = caught.value.response["Error"]
        assert error["Code"] == self.code, f"AWS returns {self.code}, see {self.source}; the local AWS returned {error}"
        assert self.message in error["Message"]
