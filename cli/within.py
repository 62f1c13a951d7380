"""Wall-clock time limit for a call that has no time limit of its own."""

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TypeVar

Result = TypeVar("Result")


def run_with_timeout(seconds: float, function: Callable[[], Result]) -> Result:
    """Return the function's result or raise its exception. Raises TimeoutError after `seconds`.

    Socket timeouts apply to single reads and not to name resolution, so a slow server or an unresponsive name server could
    block the call forever. After a timeout, the call continues in its thread, a daemon thread, so the process can exit.
    """
    results: SimpleQueue[tuple[Result | None, BaseException | None]] = SimpleQueue()

    def run_in_thread() -> None:
        try:
            results.put((function(), None))
        except BaseException as error:  # re-raised below in the caller's thread
            results.put((None, error))

    threading.Thread(target=run_in_thread, daemon=True).start()
    try:
        result, error = results.get(timeout=seconds)
    except Empty:
        raise TimeoutError(f"no answer within {seconds:g} s") from None
    if error:
        raise error
    return result  # type: ignore[return-value]
