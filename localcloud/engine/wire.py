"""Engine protocol helpers that both providers share."""

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
"""Keyed by the change of a property, and whether it replaces the resource."""


def disconnected(context: grpc.ServicerContext) -> threading.Event:
    """Return an event set when the engine is gone: waits end and no new requests are sent, as if the provider process
    had died with its engine."""
    gone = threading.Event()
    if not context.add_callback(gone.set):
        gone.set()
    return gone


def abort(context: grpc.ServicerContext, text: str) -> NoReturn:
    """Abort with the status code of a Go provider's plain errors."""
    context.abort(grpc.StatusCode.UNKNOWN, text)
    raise AssertionError("abort raises")


def abort_unfinished(context: grpc.ServicerContext, text: str, detail: Any) -> NoReturn:
    """Abort with an ErrorResourceInitFailed as `detail`: the engine reads the resource's id and state from it.

    https://grpc.io/docs/guides/error/#richer-error-model
    """
    status = status_pb2.Status(code=grpc.StatusCode.UNKNOWN.value[0], message=text)
    status.details.add().Pack(detail)
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    abort(context, text)
