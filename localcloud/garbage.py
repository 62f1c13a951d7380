"""Garbage collection for processes that keep most of their objects: the servers of a local cloud, and test processes.

By default, CPython looks for reference cycles after every 700 new objects, and at exit it looks at all objects again.
In these processes, this took up to a third of the CPU time (docs/measurements.md).
https://docs.python.org/3.11/library/gc.html
"""

import atexit
import gc

OBJECTS = 100_000
"""Number of new objects after which the collector runs. Test processes need a third more memory with this value than
with the default.
"""


def pause() -> None:
    """Disable garbage collection at exit and until `resume`, while a process imports its modules."""
    gc.disable()
    atexit.register(gc.freeze)


def resume() -> None:
    """Enable garbage collection, but skip the objects that exist now: they belong to modules, which are kept."""
    gc.freeze()
    gc.set_threshold(OBJECTS)
    gc.enable()
