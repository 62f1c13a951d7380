"""Garbage collection for processes that keep most of their objects: the servers of a local cloud, and test processes.

By default, CPython's collector searches for reference cycles after every 700 new objects. At exit, it examines all
objects again. In these processes, garbage collection took up to a third of the CPU time (docs/measurements/tests.md).
https://docs.python.org/3.11/library/gc.html
"""

import atexit
import gc

OBJECTS = 100_000
"""Number of new objects after which the collector runs. Test processes need a third more memory with this value than
with the default.
"""


def pause_collection() -> None:
    """Disable garbage collection while a process imports its modules, until `resume` is called. Also skip the
    collection at exit.
    """
    gc.disable()
    atexit.register(gc.freeze)


def resume_collection() -> None:
    """Enable garbage collection, but exclude the objects that exist now: they belong to modules, which stay loaded."""
    gc.freeze()
    gc.set_threshold(OBJECTS)
    gc.enable()
