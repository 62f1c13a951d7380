"""Garbage collection for processes that keep most of their objects: the servers of a local cloud, and test processes.

By default, CPython looks for reference cycles after every 700 new objects, and at exit it looks at all objects again.
In these processes that took up to a third of the CPU time (docs/measurements.md).
https://docs.python.org/3.11/library/gc.html
"""

import atexit
import gc

OBJECTS = 100_000
"""Number of new objects after which the collector runs. Test processes then need a third more memory than with the
default.
"""


def pause() -> None:
    """Do not collect garbage until `resume`, while a process imports its modules, nor at exit."""
    gc.disable()
    atexit.register(gc.freeze)


def resume() -> None:
    """Collect garbage, but skip the objects that exist now: these are the modules, which are kept."""
    gc.freeze()
    gc.set_threshold(OBJECTS)
    gc.enable()
