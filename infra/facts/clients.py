"""boto3 clients for plan-time reads: short timeouts, patient with throttling, and AWS's errors as sentences."""

import re
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from infra.config.messages import did_you_mean
from infra.facts.model import FactsError

if TYPE_CHECKING:
    from infra.settings.stack import Settings

Result = TypeVar("Result")

CONNECT_SECONDS = 3
READ_SECONDS = 20
ATTEMPTS = 6
"""AWS throttles describe calls of busy accounts; adaptive retries slow down until it answers."""

_DENIED = {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "AuthorizationError"}
_BAD_CREDENTIALS = {
    "AuthFailure",
    "ExpiredToken",
    "ExpiredTokenException",
    "InvalidClientTokenId",
    "RequestExpired",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
}
_LOG_IN = "log in (`aws sso login`, AWS_PROFILE) and check with `aws sts get-caller-identity`"


class Denied(Exception):
    """The caller may not make the call."""


class Clients:
    """One client per service, made on first use, all for one region."""

    def __init__(self, region: str) -> None:
        import boto3.session

        self.region = region
        self._session = boto3.session.Session(region_name=region)

    def _client(self, service: str, attempts: int = ATTEMPTS) -> Any:
        from botocore.config import Config

        config = Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=READ_SECONDS,
            retries={"mode": "adaptive", "total_max_attempts": attempts},
            max_pool_connections=20,
        )
        return self._session.client(service, config=config)

    @cached_property
    def sts(self) -> Any:
        return self._client("sts", attempts=2)  # the first call: credentials or network at fault must show at once

    @cached_property
    def ec2(self) -> Any:
        return self._client("ec2")

    @cached_property
    def autoscaling(self) -> Any:
        return self._client("autoscaling")

    @cached_property
    def eks(self) -> Any:
        return self._client("eks")

    @cached_property
    def efs(self) -> Any:
        return self._client("efs")

    @cached_property
    def iam(self) -> Any:
        return self._client("iam")

    @cached_property
    def s3(self) -> Any:
        return self._client("s3")

    @cached_property
    def quotas(self) -> Any:
        return self._client("service-quotas")

    def make(self, settings: "Settings", *, needs_iam: bool) -> None:
        """Create the clients that the settings need. boto3 can create them in one thread only."""
        _ = self.ec2, self.quotas, self.eks if settings.is_eks else self.autoscaling
        if settings.storage.existing_file_system_id:
            _ = self.efs
        if needs_iam:
            _ = self.iam


def asked(region: str, question: Callable[[], Result]) -> Result:
    """The answer of AWS, or a FactsError (Denied where only the permission is missing)."""
    from botocore.exceptions import (
        BotoCoreError,
        ClientError,
        ConnectTimeoutError,
        EndpointConnectionError,
        NoCredentialsError,
        PartialCredentialsError,
        ReadTimeoutError,
    )

    try:
        return question()
    except (NoCredentialsError, PartialCredentialsError):
        raise FactsError(f"AWS could not be queried: there are no credentials; {_LOG_IN}") from None
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        if code in _DENIED:
            raise Denied(_action(error)) from None
        if code in _BAD_CREDENTIALS:
            raise FactsError(f"AWS refuses the credentials ({code}); {_LOG_IN}") from None
        raise FactsError(f"AWS could not be queried: {error}") from None
    except (EndpointConnectionError, ConnectTimeoutError, ReadTimeoutError) as error:
        raise FactsError(f"AWS cannot be reached in region {region}{_known(region)}: {_one_line(str(error))}") from None
    except BotoCoreError as error:  # profiles and single sign-on, above all
        raise FactsError(f"AWS could not be queried: {_one_line(str(error)).rstrip('.')}; {_LOG_IN}") from None


def is_error(error: Exception, *codes: str) -> bool:
    """Whether an exception is AWS's answer with one of the codes."""
    response = getattr(error, "response", {})
    return response.get("Error", {}).get("Code") in codes


def _action(error: Any) -> str:
    """`ec2:DescribeVpcs`, from AWS's own words where they say it."""
    named = re.search(r"perform:? ([a-z0-9-]+:[A-Za-z]+)", str(error))
    return named[1] if named else str(error.operation_name)


def _known(region: str) -> str:
    """A hint where the region may be a slip of the pen; a region younger than the SDK is not in its list."""
    import boto3.session

    regions = boto3.session.Session().get_available_regions("ec2")
    return "" if region in regions else f" (unknown to the SDK{did_you_mean(region, regions)})"


def _one_line(text: str) -> str:
    return " ".join(text.split())
