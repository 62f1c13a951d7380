"""A foreign manifest that records which of its fields were used, so that none is dropped silently."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from infra.config.problems import format_path

Path = tuple[str | int, ...]

COUNT: Final = re.compile(r"[0-9]{1,9}")
"""Text that is a number of nodes, tasks or devices. `str.isdigit` also accepts `²`, which `int` rejects."""
NO_PLACE: Final = "job files have no such field"


class NotImportable(Exception):
    """The file cannot be converted into a job file. The message contains the reason and the fix."""


@dataclass(frozen=True)
class Note:
    """Note on a field of the source that the job file omits, expresses in another form, or may interpret differently."""

    path: str
    action: str
    """`dropped`, `changed`, or `kept`. A kept field may have another meaning in the job file."""
    text: str

    def __str__(self) -> str:
        return f"{self.path}: {self.action}: {self.text}"


@dataclass
class _Record:
    used: set[Path] = field(default_factory=set)
    notes: list[Note] = field(default_factory=list)


class Source:
    """A value in a manifest and its path. All views of a document share one record of the fields that were used."""

    def __init__(self, value: Any, path: Path = (), record: _Record | None = None) -> None:
        self.value, self.path = value, path
        self._record = _Record() if record is None else record

    def get_field(self, *keys: str | int) -> "Source":
        """Return a view of a field; its value is None if the document lacks the field."""
        value = self.value
        for key in keys:
            if isinstance(value, Mapping):
                value = value.get(key)
            elif isinstance(value, list) and isinstance(key, int) and key < len(value):
                value = value[key]
            else:
                value = None
        return Source(value, (*self.path, *keys), self._record)

    def list_elements(self, *keys: str | int) -> list["Source"]:
        """Return views of the elements of a list."""
        whole = self.get_field(*keys)
        return [whole.get_field(number) for number in range(len(whole.value))] if isinstance(whole.value, list) else []

    def take(self, *keys: str | int) -> Any:
        """Return the value of a field, and record that the job file keeps the field."""
        inner = self.get_field(*keys)
        self._record.used.add(inner.path)
        return inner.value

    def undo_take(self, *keys: str | int) -> None:
        """Undo `take`: record that the job file omits the field after all."""
        self._record.used.discard(self.get_field(*keys).path)

    def note_dropped_field(self, *keys: str | int, why: str) -> None:
        """If the document contains the field, add a note that the job file omits it."""
        self._add_note("dropped", why, keys)

    def note_changed_field(self, *keys: str | int, to: str) -> None:
        """If the document contains the field, add a note that the job file expresses it in another form."""
        self._add_note("changed", to, keys)

    def _add_note(self, action: str, text: str, keys: Path) -> None:
        inner = self.get_field(*keys)
        inside = [(*inner.path, *path) for path in list_leaves(inner.value)] or [inner.path]
        is_used = all(self._is_used(path) for path in inside)
        self._record.used.add(inner.path)
        if inner.value is not None and not is_used:
            self._record.notes.append(Note(format_path(inner.path), action, text))

    def notes(self) -> list[Note]:
        """Return all notes on the document, including one for each field that was never read."""
        left = [Note(format_path(path), "dropped", NO_PLACE) for path in list_leaves(self.value) if not self._is_used(path)]
        return [*self._record.notes, *left]

    def _is_used(self, path: Path) -> bool:
        return any(path[:length] in self._record.used for length in range(1, len(path) + 1))


def list_leaves(value: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the paths of all scalars, and of empty mappings and lists.

    >>> list(leaves({"a": [1, {"b": 2}], "c": {}}))
    [('a', 0), ('a', 1, 'b'), ('c',)]
    """
    inner: list[tuple[str | int, Any]] = []
    if isinstance(value, Mapping):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    if not inner and path:
        yield path
    for key, item in inner:
        yield from list_leaves(item, (*path, key))
