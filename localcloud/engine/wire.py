"""Helpers for the engine protocol, shared by both providers."""

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
"""Maps the kind of change, and whether the change replaces the resource, to the kind of a PropertyDiff."""


def watch_for_disconnect(context: grpc.ServicerContext) -> threading.Event:
    """Return an event that is set when the engine disconnects. After a disconnect, all waits end and no new requests
    are sent, as if the provider process had exited together with its engine."""
    gone = threading.Event()
    if not context.add_callback(gone.set):
        gone.set()
    return gone


def abort(context: grpc.ServicerContext, text: str) -> NoReturn:
    """Abort the request with UNKNOWN, the status code of plain errors in Go providers."""
    context.abort(grpc.StatusCode.UNKNOWN, text)
    raise AssertionError("abort raises")


def abort_unfinished(context: grpc.ServicerContext, text: str, detail: Any) -> NoReturn:
    """Abort the request. The engine reads the resource's id and state from `detail`, an ErrorResourceInitFailed.

    https://grpc.io/docs/guides/error/#richer-error-model
    """
    status = status_pb2.Status(code=grpc.StatusCode.UNKNOWN.value[0], message=text)
    status.details.add().Pack(detail)
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    abort(context, text)
