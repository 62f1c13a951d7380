"""Flatten the complete state of a moto backend into paths through attributes, dicts, lists, sets and nested objects."""

import datetime
import enum
import re
import threading
import types
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from moto.core.base_backend import AccountSpecificBackend, BackendDict, BaseBackend

Path = tuple[str, ...]

_TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d")
_NOT_STATE = (
    BaseBackend,
    AccountSpecificBackend,
    BackendDict,
    type,
    types.ModuleType,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.GeneratorType,
    re.Pattern,
    threading.Thread,
    type(threading.Lock()),
    type(threading.RLock()),
    threading.Condition,
    threading.Event,
)
A_TIME = "«time»"


class State:
    """State that `walk` found in a backend."""

    def __init__(self) -> None:
        self.leaves: dict[Path, str] = {}
        """Maps the path of a scalar to its value as text, and the path of an object to its class. None and empty
        values are omitted."""
        self.things: dict[Path, Any] = {}
        """Maps a path to the object, dict or list at that path."""

    def list_prefixes(self) -> set[Path]:
        """Return the paths of all values, and their prefixes."""
        prefixes: set[Path] = set()
        for path in self.leaves:
            while path and path not in prefixes:
                prefixes.add(path)
                path = path[:-1]
        return prefixes


def read_state(backend: Any) -> State:
    """Return the state of a backend.

    The walk is breadth-first, so an object with several references is found where it is stored, not where it is used.
    """
    state = State()
    visited: set[int] = {id(backend)}
    queue: deque[tuple[Path, Any]] = deque(((name,), value) for name, value in vars(backend).items())
    while queue:
        path, value = queue.popleft()
        if isinstance(value, _NOT_STATE) or value is None:
            continue
        leaf = _format_scalar(value)
        if leaf is not None:
            if leaf:
                state.leaves[path] = leaf
            continue
        if id(value) in visited:
            continue
        visited.add(id(value))
        state.things[path] = value
        children = _list_children(value)
        if children is None:
            state.leaves[path] = f"«{type(value).__name__}»"
            continue
        if not isinstance(value, (Mapping, list, tuple, set, frozenset, deque)):
            state.leaves[path] = f"«{type(value).__name__}»"
        queue.extend(((*path, name), child) for name, child in children)
    return state


def _format_scalar(value: Any) -> str | None:
    """Return a scalar value as text ("" for an empty value), or None for a container or other object."""
    if isinstance(value, enum.Enum):
        return str(value.value)
    if isinstance(value, str):
        return A_TIME if _TIME.match(value) else value
    if isinstance(value, (datetime.datetime, datetime.date, datetime.timedelta)):
        return A_TIME
    if isinstance(value, float):
        return A_TIME if value > 1e9 else str(value)  # seconds or milliseconds since 1970
    if isinstance(value, (bool, int, bytes, bytearray)):
        return str(value) if value != b"" else ""
    return None


def _list_children(value: Any) -> Iterator[tuple[str, Any]] | None:
    if isinstance(value, Mapping):
        return ((_to_name(key), child) for key, child in list(value.items()))
    if isinstance(value, (list, tuple, deque)):
        return ((str(index), child) for index, child in enumerate(list(value)))
    if isinstance(value, (set, frozenset)):
        return ((_to_name(child), child) for child in sorted(value, key=str))
    attributes = getattr(value, "__dict__", None)
    if isinstance(attributes, dict):
        inherited = value.items() if isinstance(value, dict) else ()
        return iter([*attributes.items(), *inherited])
    return None


def _to_name(key: Any) -> str:
    return key if isinstance(key, str) else str(key)
