"""What every provider says to the engine in the same words."""

import threading
from typing import Any, NoReturn

import grpc
from pulumi.runtime.proto import provider_pb2, status_pb2

Kinds = provider_pb2.PropertyDiff
KINDS = {
    ("add", False): Kinds.ADD,
    ("add", True): Kinds.ADD_REPLACE,
    ("update", False): Kinds.UPDATE,
    ("update", True): Kinds.UPDATE_REPLACE,
    ("delete", False): Kinds.DELETE,
    ("delete", True): Kinds.DELETE_REPLACE,
}
"""By what happens to a property, and whether that replaces the resource."""


def hung_up(context: grpc.ServicerContext) -> threading.Event:
    """Set when the engine is gone: waits end then, and nothing more is asked, as a provider process dies with its engine."""
    gone = threading.Event()
    if not context.add_callback(gone.set):
        gone.set()
    return gone


def abort(context: grpc.ServicerContext, text: str) -> NoReturn:
    """The code is what a Go provider's plain errors have."""
    context.abort(grpc.StatusCode.UNKNOWN, text)
    raise AssertionError("abort raises")


def abort_unfinished(context: grpc.ServicerContext, text: str, detail: Any) -> NoReturn:
    """`detail` is an ErrorResourceInitFailed: the engine finds id and state of what was made among the status's details.

    https://grpc.io/docs/guides/error/#richer-error-model
    """
    status = status_pb2.Status(code=grpc.StatusCode.UNKNOWN.value[0], message=text)
    status.details.add().Pack(detail)
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    abort(context, text)
