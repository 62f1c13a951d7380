"""Cancellation of a Pulumi operation, including its requests in flight."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


class Canceled(Exception):
    """The engine canceled the operation."""


class Cancellation:
    """Cancellation state of a Pulumi operation. It is set once, when the engine cancels the operation.

    The official provider passes one context to all requests and cancels it, so a request in flight fails at once. The
    API server may still process the request. pulumi-kubernetes@94977969d:provider/pkg/provider/provider.go (Cancel,
    Create)
    """

    def __init__(self) -> None:
        self.requested = threading.Event()
        self._in_flight: set[Future[object]] = set()
        self._lock = threading.Lock()

    def request(self) -> None:
        with self._lock:
            self.requested.set()
            in_flight = list(self._in_flight)
        for future in in_flight:
            with suppress(InvalidStateError):  # the response has already arrived
                future.set_exception(Canceled("context canceled"))

    def run(self, send: Callable[[], T]) -> T:
        """Send a request and return its response. Raises Canceled as soon as the operation is canceled, although the
        request itself continues.
        """
        answer: Future[T] = Future()
        with self._lock:
            if self.requested.is_set():
                raise Canceled("context canceled")
            self._in_flight.add(answer)  # type: ignore[arg-type]

        def store_result() -> None:
            try:
                result = send()
            except BaseException as error:
                with suppress(InvalidStateError):  # it was canceled
                    answer.set_exception(error)
            else:
                with suppress(InvalidStateError):
                    answer.set_result(result)

        threading.Thread(target=store_result, daemon=True).start()
        try:
            return answer.result()
        finally:
            with self._lock:
                self._in_flight.discard(answer)
