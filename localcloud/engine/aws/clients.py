"""Cached boto3 clients for the handlers. Like the official provider, the clients retry throttled requests."""

import os
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import boto3
import botocore.session
from botocore.config import Config
from botocore.loaders import Loader

THROTTLED_ATTEMPTS = 12
"""The official provider makes 25 attempts with up to 20 s between them. This emulator uses fewer attempts and shorter
pauses."""
BROKEN_ATTEMPTS = 4
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 0.8

# Error codes that the official provider's SDK treats as throttling:
# https://github.com/aws/aws-sdk-go-v2/blob/main/aws/retry/standard.go
THROTTLES = frozenset(
    {
        "BandwidthLimitExceeded",
        "EC2ThrottledException",
        "LimitExceededException",
        "PriorRequestNotComplete",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestThrottled",
        "RequestThrottledException",
        "SlowDown",
        "ThrottledException",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
        "TransactionInProgressException",
    }
)
BROKEN = frozenset({500, 502, 503, 504})


class ClientKey(NamedTuple):
    """Settings that identify a cached client."""

    service: str
    region: str
    endpoint: str | None
    access_key: str
    secret_key: str
    session_token: str | None


_clients: dict[ClientKey, Any] = {}
_identities: dict[ClientKey, dict[str, str]] = {}
_over: ContextVar[threading.Event | None] = ContextVar("over", default=None)
_lock = threading.Lock()
_loader = Loader(include_default_search_paths=True)


class Cancelled(Exception):
    """The request was canceled because the engine disconnected."""


@contextmanager
def block_requests_after(over: threading.Event) -> Iterator[None]:
    """Block new AWS requests and retries in this thread once `over` is set. Requests in flight are not interrupted."""
    token = _over.set(over)
    try:
        yield
    finally:
        _over.reset(token)


def get_client(service: str, region: str, endpoint: str | None) -> Any:
    """Return the client for the credentials currently in the environment. Thread-safe."""
    key = _build_key(service, region, endpoint)
    cached = _clients.get(key)
    if cached is None:
        with _lock:
            cached = _clients.get(key)
            if cached is None:
                cached = _clients[key] = _create_client(key)
    return cached


def create_clients_in_background(services: Iterable[str], region: str, endpoint: str | None) -> None:
    """Create clients in the background: loading the EC2 model alone takes botocore half a second."""

    def create_all() -> None:
        for service in services:
            get_client(service, region, endpoint)

    threading.Thread(target=create_all, daemon=True, name=f"clients-{region}").start()


def get_caller_identity(region: str, endpoint: str | None) -> dict[str, str]:
    """Return the STS caller identity, cached after the first query."""
    key = _build_key("sts", region, endpoint)
    if key not in _identities:
        _identities[key] = get_client("sts", region, endpoint).get_caller_identity()
    return _identities[key]


def _build_key(service: str, region: str, endpoint: str | None) -> ClientKey:
    access_key, secret_key = os.environ.get("AWS_ACCESS_KEY_ID", ""), os.environ.get("AWS_SECRET_ACCESS_KEY", "")
    return ClientKey(service, region, endpoint, access_key, secret_key, os.environ.get("AWS_SESSION_TOKEN") or None)


def _create_client(key: ClientKey) -> Any:
    session = botocore.session.Session()
    session.register_component("data_loader", _loader)  # parse each service model only once for all regions and users
    new = boto3.session.Session(botocore_session=session).client(
        key.service,
        region_name=key.region,
        endpoint_url=key.endpoint,
        aws_access_key_id=key.access_key or None,
        aws_secret_access_key=key.secret_key or None,
        aws_session_token=key.session_token,
        config=Config(
            retries={"mode": "standard"},
            max_pool_connections=64,
            connect_timeout=10,
            read_timeout=120,
            # The local AWS runs on this machine; otherwise, botocore would read proxies from the environment, which tests change.
            # S3 Control's host name has a prefix and does not resolve (123456789012.127.0.0.1), so the local AWS is its proxy.
            proxies={"http": key.endpoint} if key.service == "s3control" and key.endpoint else {},
        ),
    )
    service_id = new.meta.service_model.service_id.hyphenize()
    new.meta.events.unregister(f"needs-retry.{service_id}", unique_id=f"retry-config-{service_id}")
    new.meta.events.register("needs-retry", _choose_retry_delay)
    new.meta.events.register("before-send", _raise_if_cancelled)
    new.meta.events.register("after-call", _add_service_id)
    _ = new.exceptions  # botocore creates the exception classes on first use, without a lock
    return new


def _raise_if_cancelled(**_: Any) -> None:
    over = _over.get()
    if over is not None and over.is_set():
        raise Cancelled("request canceled, context canceled")


def _add_service_id(parsed: dict[str, Any], model: Any, **_: Any) -> None:
    """Add the service id to responses, because botocore's exceptions contain only the operation name."""
    parsed.setdefault("ResponseMetadata", {})["ServiceId"] = model.service_model.service_id


def _choose_retry_delay(response: Any, attempts: int, caught_exception: Exception | None = None, **_: Any) -> float | None:
    """botocore's retry hook: return the seconds until the next attempt, or None to stop retrying."""
    if caught_exception is not None or response is None:
        return None
    http, parsed = response
    code = parsed.get("Error", {}).get("Code", "")
    allowed = THROTTLED_ATTEMPTS if code in THROTTLES else BROKEN_ATTEMPTS if http.status_code in BROKEN else 0
    return min(FIRST_PAUSE * 2 ** (attempts - 1), LONGEST_PAUSE) if attempts < allowed else None
