"""Dispatch requests to moto's handlers in the order of moto's tables: by full URL in-process, by path in the server."""

import re
from collections.abc import Callable
from functools import cache
from typing import Any

from botocore.awsrequest import AWSPreparedRequest
from moto.backend_index import backend_url_patterns
from moto.backends import get_backend
from moto.core.base_backend import BackendDict
from moto.core.botocore_stubber import BotocoreStubber
from moto.core.request import Request, normalize_request
from moto.core.utils import get_equivalent_url_in_aws_domain
from werkzeug.exceptions import HTTPException
from werkzeug.http import http_date

from localcloud.aws import clock, gateway
from localcloud.aws.call import Response

_AWS_HOST = re.compile(r"https?://(?P<service>[^./]+)\.([^/]+\.)?(amazonaws\.com|api\.aws)/")
_Handler = Callable[[Any, str, Any], Response]


def _create_stateless_backend(service: str) -> Any:
    """Return a backend without state, used only to read its URLs."""
    backends = get_backend(service)  # type: ignore[call-overload]
    return object.__new__(backends.backend) if isinstance(backends, BackendDict) else backends["global"]


@cache
def _load_url_handlers(service: str) -> list[tuple[re.Pattern[str], _Handler]]:
    return [(re.compile(pattern), handler) for pattern, handler in _create_stateless_backend(service).urls.items()]


@cache
def _load_path_handlers(service: str) -> list[tuple[re.Pattern[str], _Handler]]:
    paths = _create_stateless_backend(service).url_paths.items()
    return [(re.compile(pattern), handler) for pattern, handler in paths]


def forward_by_url(service: str, request: Request, url: str) -> Response:
    return _forward(_load_url_handlers(service), request, url)


def forward_by_path(service: str, request: Request) -> Response:
    return _forward(_load_path_handlers(service), request, request.raw_path)


def _forward(table: list[tuple[re.Pattern[str], _Handler]], request: Request, subject: str) -> Response:
    for pattern, handler in table:
        if pattern.match(subject):
            try:
                return handler(request, request.raw_url, request.headers)
            except HTTPException as error:
                return int(error.code or 400), dict(error.get_headers()), error.get_body()
    return gateway.NO_SUCH_URL


def _process_request(_: BotocoreStubber, request: AWSPreparedRequest) -> Response | None:
    """Handle requests from botocore clients in this process, in place of moto's handler."""
    parsed, _host = get_equivalent_url_in_aws_domain(request.url)
    url = f"{parsed.scheme}://{parsed.netloc}{parsed.path}"
    for service, pattern in backend_url_patterns:
        if pattern.match(url):
            normalized = normalize_request(request)
            return _set_date(gateway.handle_request(service, normalized, lambda: forward_by_url(service, normalized, url)))  # noqa: B023
    if not (elsewhere := _AWS_HOST.match(url)):
        return None
    return _set_date(gateway.handle_request(elsewhere["service"], normalize_request(request), lambda: gateway.NO_SUCH_URL))


def _set_date(response: Response) -> Response:
    """Set the Date header to the time of the local AWS, as the server does."""
    status, headers, body = response
    return (
        status,
        {**{name: value for name, value in headers.items() if name.lower() != "date"}, "date": http_date(clock.now())},
        body,
    )


def extend_moto() -> None:
    """Route in-process clients (`mock_aws`) through the gateway."""
    BotocoreStubber.process_request = _process_request  # type: ignore[method-assign, assignment]
