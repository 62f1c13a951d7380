"""A wall-clock limit for a call that has none of its own."""

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TypeVar

Result = TypeVar("Result")


def within(seconds: float, function: Callable[[], Result]) -> Result:
    """Return what the function returns, or raise what it raises; TimeoutError after `seconds`.

    Socket timeouts limit each single read and leave out name resolution, so neither a server that sends a byte now and
    then nor a silent name server would end. The abandoned thread is a daemon: the process ends without it.
    """
    results: SimpleQueue[tuple[Result | None, BaseException | None]] = SimpleQueue()

    def call() -> None:
        try:
            results.put((function(), None))
        except BaseException as error:  # raised again below, in the caller's thread
            results.put((None, error))

    threading.Thread(target=call, daemon=True).start()
    try:
        result, error = results.get(timeout=seconds)
    except Empty:
        raise TimeoutError(f"no answer within {seconds:g} s") from None
    if error:
        raise error
    return result  # type: ignore[return-value]
