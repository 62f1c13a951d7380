"""boto3 clients for reads at plan time: short timeouts, retries on throttling, and readable errors."""

import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache, cached_property
from threading import RLock
from typing import Any, TypeVar

from infra.facts import regions
from infra.facts.model import FactsError
from infra.facts.regions import UnknownRegion

Result = TypeVar("Result")

CONNECT_SECONDS = 3
READ_SECONDS = 20
ATTEMPTS = 6
"""Maximum number of attempts per call. AWS throttles Describe calls in busy accounts, so adaptive retries back off."""
PURCHASE_SECONDS = 120
"""Read timeout of purchases: a late answer is better than none."""

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
_ENABLED_BY_DEFAULT = {
    *("ap-northeast-1", "ap-northeast-2", "ap-northeast-3", "ap-south-1", "ap-southeast-1", "ap-southeast-2", "ca-central-1"),
    *("eu-central-1", "eu-north-1", "eu-west-1", "eu-west-2", "eu-west-3", "sa-east-1"),
    *("us-east-1", "us-east-2", "us-west-1", "us-west-2"),
}
"""Regions that every account of the partition `aws` can use. AWS adds none: every new Region must be enabled first.
https://docs.aws.amazon.com/accounts/latest/reference/manage-acct-regions.html"""
_LOG_IN = "Log in (`aws sso login`, or set AWS_PROFILE) and check with `aws sts get-caller-identity`"


class Denied(Exception):
    """The caller lacks permission for an API call."""


@cache
def _create_loader(data_path: str) -> Any:
    from botocore.loaders import create_loader

    return create_loader(data_path)


def _create_session(region: str) -> Any:
    """Return a session that shares the service models with all other sessions of this process, because loading EC2's
    model takes half a second."""
    import boto3.session
    import botocore.session

    core = botocore.session.Session()
    core.register_component("data_loader", _create_loader(core.get_config_variable("data_path")))
    return boto3.session.Session(botocore_session=core, region_name=region)


class Clients:
    """boto3 clients for one Region: one per service, created on first use."""

    def __init__(self, region: str, like: "Clients | None" = None) -> None:
        """Reuse the session of the clients in `like`, so that credentials are resolved only once. Raises
        UnknownRegion if the text is not a Region name."""
        if not regions.is_region_name(region):
            raise UnknownRegion(regions.describe_malformed_region(region))
        self.region = region
        self._session: Any = like._session if like is not None else _create_session(region)
        self._lock: RLock = like._lock if like is not None else RLock()
        self._clients: dict[tuple[str, int, str], Any] = {}
        self._last_date: str | None = None
        self._session.events.register("after-call", self._record_response_date)

    def now(self) -> datetime:
        """Return the time of AWS's last response, or this machine's time before the first one. The local AWS has its
        own clock.
        """
        return parsedate_to_datetime(self._last_date) if self._last_date else datetime.now(UTC)

    def _record_response_date(self, http_response: Any, **_: Any) -> None:
        self._last_date = http_response.headers.get("Date") or self._last_date

    def _get_client(self, service: str, attempts: int = ATTEMPTS, read_seconds: float = READ_SECONDS, region: str = "") -> Any:
        from botocore.config import Config

        config = Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=read_seconds,
            retries={"mode": "adaptive", "total_max_attempts": attempts},
            max_pool_connections=20,
        )
        with self._lock:  # creating boto3 clients is not thread-safe
            key = service, attempts, region
            if key not in self._clients:
                client = self._session.client(service, region_name=region or self.region, config=config)
                # botocore creates a client's exception classes on first use, without a lock. If two threads do so at the
                # same time, `except client.exceptions.SomeError` may not match an error that the same client raised.
                _ = client.exceptions
                self._clients[key] = client
            return self._clients[key]

    sts: Any = cached_property(lambda self: self._get_client("sts", attempts=2))
    """The first call should fail fast without a network or valid credentials."""
    ec2: Any = cached_property(lambda self: self._get_client("ec2"))
    ec2_once: Any = cached_property(lambda self: self._get_client("ec2", attempts=1, read_seconds=PURCHASE_SECONDS))
    """Client that sends each request at most once, for purchases: they have no client token, so that a repeated request
    would buy again."""
    autoscaling: Any = cached_property(lambda self: self._get_client("autoscaling"))
    eks: Any = cached_property(lambda self: self._get_client("eks"))
    ecr: Any = cached_property(lambda self: self._get_client("ecr"))
    efs: Any = cached_property(lambda self: self._get_client("efs"))
    fsx: Any = cached_property(lambda self: self._get_client("fsx"))
    iam: Any = cached_property(lambda self: self._get_client("iam"))
    kms: Any = cached_property(lambda self: self._get_client("kms"))
    s3: Any = cached_property(lambda self: self._get_client("s3"))
    logs: Any = cached_property(lambda self: self._get_client("logs"))
    quotas: Any = cached_property(lambda self: self._get_client("service-quotas"))

    def create_pricing_client(self, region: str) -> Any:
        """Return a client of the Price List, which has endpoints in only a few Regions."""
        return self._get_client("pricing", region=region)


def query(region: str, call: Callable[[], Result]) -> Result:
    """Call AWS, and convert its errors into CommandErrors. Raises Denied if the caller lacks permission,
    UnknownRegion if the Region does not exist, and FactsError on other errors."""
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
        return call()
    except (NoCredentialsError, PartialCredentialsError):
        raise FactsError(f"AWS could not be queried: no credentials found. {_LOG_IN}") from None
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        if code in _DENIED:
            raise Denied(_parse_denied_action(error)) from None
        if region not in regions.list_sdk_regions():
            raise regions.build_unknown_region_error(region, code) from None
        if code in _BAD_CREDENTIALS:
            raise FactsError(f"AWS rejects the credentials ({code}){_build_disabled_region_hint(region)}. {_LOG_IN}") from None
        raise FactsError(f"AWS could not be queried: {error}") from None
    except (EndpointConnectionError, ConnectTimeoutError, ReadTimeoutError) as error:
        reason = _join_lines(str(error))
        if region not in regions.list_sdk_regions():
            raise regions.build_unknown_region_error(region, reason) from None
        raise FactsError(f"AWS is not reachable in Region {region}: {reason}") from None
    except BotoCoreError as error:  # mostly misconfigured profiles and expired SSO sessions
        raise FactsError(f"AWS could not be queried: {_join_lines(str(error)).rstrip('.')}. {_LOG_IN}") from None


def try_query(region: str, call: Callable[[], Result]) -> tuple[Result | None, str]:
    """Call AWS and return the result or, if the call fails, None and the reason."""
    try:
        return query(region, call), ""
    except Denied as denied:
        return None, f"you may not call {denied}"
    except FactsError as error:
        return None, regions.WRONG if isinstance(error, UnknownRegion) else str(error)


def read_pages(client: Any, operation: str, key: str, **arguments: Any) -> list[Any]:
    """Return the items of all pages of a response."""
    return [item for page in client.get_paginator(operation).paginate(**arguments) for item in page[key]]


def build_filter(name: str, values: Iterable[str]) -> dict[str, Any]:
    """Return a filter of EC2 for exact values. Escapes `*` and `?`, which are wildcards in filters."""
    return {"Name": name, "Values": sorted(value.replace("*", "\\*").replace("?", "\\?") for value in values)}


def is_error(error: Exception, *codes: str) -> bool:
    """True if the exception is an AWS error with one of these codes."""
    response = getattr(error, "response", {})
    return response.get("Error", {}).get("Code") in codes


def _parse_denied_action(error: Any) -> str:
    """Return the denied action, such as `ec2:DescribeVpcs`, from AWS's message, else the name of the operation."""
    match = re.search(r"perform:? ([a-z0-9-]+:[A-Za-z]+)", str(error))
    return match[1] if match else str(error.operation_name)


def _build_disabled_region_hint(region: str) -> str:
    """Return a hint if the Region may be the reason: AWS accepts no credentials in a Region that the account has not
    enabled, or of another partition."""
    if region in _ENABLED_BY_DEFAULT:
        return ""
    return f" in Region {region}, which the account may not have enabled, or which is in another partition"


def _join_lines(text: str) -> str:
    return " ".join(text.split())
