"""Tables of calls that AWS refuses: bad input, AWS's error code, and the page that documents it.

REFUSALS = [Refusal("a name with capitals", "create_bucket", {"Bucket": "Capitals"}, "InvalidBucketName", "https://...")]

@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_s3_refuses(aws: Client, refusal: Refusal) -> None:
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
    """Method of the boto3 client."""
    params: Mapping[str, Any] | Callable[..., Mapping[str, Any]]
    """The call's parameters, or a function of the test's resources (the keyword arguments of `check`)."""
    code: str
    source: str
    """Address of AWS's documentation."""
    message: str = ""
    """A part of the message that users see."""

    def __str__(self) -> str:
        return f"{self.operation}: {self.what}"

    def check(self, client: Any, **made: Any) -> None:
        params = self.params(**made) if callable(self.params) else self.params
        with pytest.raises(ClientError) as caught:
            getattr(client, self.operation)(**params)
        error = caught.value.response["Error"]
        assert error["Code"] == self.code, f"AWS says {self.code}, see {self.source}; the local AWS says {error}"
        assert self.message in error["Message"]
