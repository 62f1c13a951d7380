"""What was made for an engine that was killed before it could write it down.

A provider of one's own dies with its engine, and AWS finishes what was begun: real clouds are left with resources that no state
knows. This one lives on. It lets such creations come to their end and hands them to the next engine that asks for the same, so
that nothing is made twice. Only creations of connections that broke in the middle of a request are handed on.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from localcloud.engine.lifecycle import DEFAULTS, Made
from localcloud.engine.resource import Args, State


@dataclass
class Creation:
    """One creation, going on or done."""

    peer: str
    """The engine's connection."""
    inputs: Args
    made: "Future[Made]" = field(default_factory=Future)


class Creations:
    """The last creation for each URN, until an engine shows that it knows of it."""

    def __init__(self) -> None:
        self._by_urn: dict[str, Creation] = {}
        self._broken: set[str] = set()
        self._lock = threading.Lock()

    def broke(self, peer: str) -> None:
        """The connection ended in the middle of a request: its engine was killed."""
        with self._lock:
            self._broken.add(peer)

    def known(self, urn: str, id: str) -> None:
        """An engine asks about this resource: it is in its state."""
        with self._lock:
            creation = self._by_urn.get(urn)
            if creation is not None and creation.made.done() and _id(creation) == id:
                del self._by_urn[urn]

    def named(self, urn: str, inputs: Args) -> Args:
        """Inputs of the creation that a killed engine began for the same, for the random name in them; empty without one."""
        with self._lock:
            creation = self._orphan(urn)
            return creation.inputs if creation is not None and _told(creation.inputs) == _told(inputs) else {}

    def run(self, peer: str, urn: str, inputs: Args, make: Callable[[], Made], look: Callable[[str], State | None]) -> Made:
        """What a killed engine's creation came to, if it was for the same inputs and is still there; else make it."""
        with self._lock:
            earlier = self._orphan(urn)
            creation = self._by_urn[urn] = Creation(peer, inputs)
        try:
            made = (_adopted(earlier, look) if earlier is not None and earlier.inputs == inputs else None) or make()
        except BaseException as error:
            creation.made.set_exception(error)
            with self._lock:
                if self._by_urn.get(urn) is creation:
                    del self._by_urn[urn]
            raise
        creation.made.set_result(made)
        return made

    def _orphan(self, urn: str) -> Creation | None:
        creation = self._by_urn.get(urn)
        return creation if creation is not None and creation.peer in self._broken else None


def _adopted(creation: Creation, look: Callable[[str], State | None]) -> Made | None:
    """None where nothing came of it, or somebody has removed it since."""
    if creation.made.exception() is not None:
        return None
    id = creation.made.result().id
    state = look(id)
    return None if state is None else Made(id, state)


def _id(creation: Creation) -> str | None:
    return None if creation.made.exception() is not None else creation.made.result().id


def _told(inputs: Args) -> Args:
    """What the program says: without what Check filled in."""
    filled = {DEFAULTS, *inputs.get(DEFAULTS, ())}
    return {name: value for name, value in inputs.items() if name not in filled}
