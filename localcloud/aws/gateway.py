"""Handle requests, in-process and in the server: parse, inject faults, and let an extension or moto answer."""

import json
import logging
import threading
import time
import uuid
from collections.abc import Callable
from functools import cache
from typing import Any
from xml.sax.saxutils import escape

from botocore.exceptions import UnknownServiceError
from moto.core.errors import get_error_model
from moto.core.model import OperationModel, ServiceModel
from moto.core.parse import PROTOCOL_PARSERS
from moto.core.request import Request, determine_request_protocol
from moto.core.responses import BaseResponse
from moto.core.routing import get_service_router
from moto.core.serialize import SerializationContext, get_serializer_class
from moto.core.utils import get_service_model, service_name_from_moto_package_name
from werkzeug.exceptions import HTTPException

from localcloud.aws import calls, durations, faults, identity, patching, permissions, signatures
from localcloud.aws.account import find_account
from localcloud.aws.call import Call, Response
from localcloud.aws.errors import AwsError, Refused

log = logging.getLogger(__name__)

LOCK = threading.RLock()
"""Held while a request reads or changes state, because moto's backends are not thread-safe."""

UNKNOWN_REGION = "us-east-1"
"""Region of a request that names none."""
UNSIGNED = "The request has no valid signature."
NO_SUCH_URL: Response = (404, {}, "Not yet implemented")
"""Response that a transport returns if moto has no handler for a URL."""


@cache
def to_boto_name(moto_name: str) -> str:
    """Return boto3's name for a moto service ("servicequotas" -> "service-quotas")."""
    return {"awslambda": "lambda"}.get(moto_name) or service_name_from_moto_package_name(moto_name)


@cache
def _load_service_model(service: str) -> ServiceModel | None:
    """Return botocore's model, or None if botocore does not know the service.

    The result for unknown names is cached too: botocore lists all its service folders to find out that one is missing.
    """
    try:
        return get_service_model(service)
    except UnknownServiceError:
        return None


@cache
def _load_router(service: str) -> Any:
    return get_service_router(service)


def handle_request(moto_service: str, request: Request, forward: Callable[[], Response]) -> Response:
    """Answer a request. `forward` sends the request to moto and returns moto's response."""
    with LOCK:
        started = time.perf_counter()
        durations.pop_call_delay()
        durations.complete_due_transitions()
        call = parse_call(moto_service, request, forward)
        with durations.attribute_transitions(f"{call.service}.{call.operation}" if call is not None else moto_service):
            response = _answer_call(call) if call is not None else _answer_unknown_request(moto_service, request, forward)
        seconds = time.perf_counter() - started
    if call is None:
        return response
    if response[0] < 300:
        durations.delay_call_response(call.service, call.operation)
    if pause := durations.pop_call_delay():
        time.sleep(pause)
    calls.record_call(call.service, call.operation, seconds + pause, response[0] >= 400)
    return response


def parse_call(moto_service: str, request: Request, forward: Callable[[], Response]) -> Call | None:
    """Parse a request's operation and parameters with botocore's model.

    Return None if no model describes the request.
    """
    signature = signatures.read_signature(request)
    for service in (to_boto_name(moto_service), signature.service if signature else ""):
        model = _load_service_model(service)
        if model is None:
            continue
        try:
            operation, path_params = _load_router(service).match(request)
            params = _parse_parameters(model, operation, request, path_params)
        except Exception as error:  # unknown operation, or unparsable
            log.debug("%s %s is not a call of %s: %r", request.method, request.raw_url, service, error)
            continue
        key = signature.access_key if signature else ""
        return Call(
            service=service,
            operation=str(operation.name),
            region=signature.region if signature else _guess_region(request),
            account=find_account(key),
            access_key=key,
            params=params,
            request=request,
            service_model=model,
            operation_model=operation,
            forward=lambda name=service, called=str(operation.name): _forward_to_moto(name, called, forward),  # type: ignore[misc]
        )
    return None


def _guess_region(request: Request) -> str:
    """Return the Region in the URL of a request without a valid signature."""
    try:
        return str(BaseResponse().get_region_from_url(request, request.raw_url))
    except IndexError:  # moto expects a complete Authorization header
        return UNKNOWN_REGION


def _parse_parameters(
    model: ServiceModel, operation: OperationModel, request: Request, path_params: dict[str, Any]
) -> dict[str, Any]:
    protocol = determine_request_protocol(model, request.content_type)
    parser = PROTOCOL_PARSERS[protocol](operation, map_type=dict)
    parsed: dict[str, Any] = parser.parse(
        {
            "method": request.method,
            "values": request.values,
            "headers": request.headers,
            "body": request.data,
            "url_path": request.path,
            "url_params": path_params,
        }
    )
    return parsed


def _answer_call(call: Call) -> Response:
    try:
        identity.authenticate(call)
        permissions.check(call)
        faults.raise_matching_fault(call)
        for check in patching.list_guards(call.service):
            check(call)
        handler = patching.find_handler(call.service, call.operation)
        if handler is None:
            return call.forward()
        result = handler(call)
        return _serialize_response(call, result if result is not None else {})
    except Refused as refused:
        return refused.response
    except AwsError as error:
        return _serialize_response(call, error, error.status or _choose_error_status(call, error))
    except HTTPException as error:  # older exceptions of moto contain their own response body
        return int(error.code or 400), dict(error.get_headers() or []), error.get_body() or ""
    except Exception as error:
        if _is_moto_exception(error):
            return _serialize_response(call, error)
        log.exception("%s.%s failed", call.service, call.operation)
        return _serialize_response(call, AwsError("InternalError", f"The local cloud failed: {error!r}"), 500)


def _answer_unknown_request(moto_service: str, request: Request, forward: Callable[[], Response]) -> Response:
    """Return moto's response to a request that botocore cannot parse, or an error if moto does not support it.

    Examples are presigned forms, and requests to the instance metadata service.
    """
    if not identity.is_signature_valid(request):
        return 403, {"content-type": "text/plain", "x-amzn-errortype": "MissingAuthenticationTokenException"}, UNSIGNED
    try:
        response = forward()
        if response != NO_SUCH_URL:
            return response
    except NotImplementedError:
        pass
    message = f"The local cloud does not support this {moto_service} request: {request.method} {request.path}"
    if request.content_type and "form" in request.content_type:
        error = f"<Error><Code>NotImplementedInLocalCloud</Code><Message>{escape(message)}</Message></Error>"
        return 400, {"content-type": "text/xml"}, f"<ErrorResponse>{error}</ErrorResponse>"
    headers = {"content-type": "application/json", "x-amzn-errortype": "NotImplementedInLocalCloud"}
    return 400, headers, json.dumps({"__type": "NotImplementedInLocalCloud", "message": message})


def _forward_to_moto(service: str, operation: str, forward: Callable[[], Response]) -> Response:
    """Return moto's response. If moto lacks the operation, raise an error that SDKs do not retry."""
    missing = AwsError("NotImplementedInLocalCloud", f"The local cloud does not support {service}.{operation}.", status=400)
    try:
        response = forward()
    except NotImplementedError as error:
        raise AwsError(missing.code, f"{missing.message} {error}".strip(), status=400) from error
    if response == NO_SUCH_URL:
        raise missing
    return response


def _is_moto_exception(error: Exception) -> bool:
    return type(error).__module__.startswith("moto.") and hasattr(error, "code")


def _choose_error_status(call: Call, error: AwsError) -> int | None:
    """Return 500 if the model marks the error as a service fault but specifies no HTTP status for it, as in KMS.

    Otherwise return None, so that the serializer chooses the status.
    """
    model = get_error_model(error, call.service_model)._shape_model
    return 500 if model.get("fault") and "httpStatusCode" not in model.get("error", {}) else None


def _serialize_response(call: Call, result: object, status: int | None = None) -> Response:
    protocol = determine_request_protocol(call.service_model, call.request.content_type)
    request_id = str(uuid.uuid4())
    serializer = get_serializer_class(call.service, protocol)(call.operation_model, SerializationContext(request_id))
    serialized = serializer.serialize(result)
    headers = {"x-amzn-requestid": request_id, **serialized["headers"]}
    return status or int(serialized["status_code"]), headers, serialized["body"]
