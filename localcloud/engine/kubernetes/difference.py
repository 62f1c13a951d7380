"""Compare an object with new inputs.

Like the official provider, this compares the last known live object, pruned to the shape of the inputs that created it,
with the new inputs. A dry run filters out changes that the server would store unchanged, such as `0.5` CPUs for `500m`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from localcloud.engine.codec import Unknown
from localcloud.engine.kubernetes.immutable import forces
from localcloud.engine.kubernetes.objects import Object
from localcloud.engine.paths import Path, covers

Verb = Literal["add", "update", "delete"]
MISSING = object()


@dataclass(frozen=True)
class Change:
    """One difference, at one path."""

    path: Path
    verb: Verb
    value: Any = None
    """The new value, or the old one of a deletion."""
    replace: bool = False


def compare(old: Object, new: Object, patterns: Iterable[Path], ignored: Iterable[Path] = ()) -> list[Change]:
    """Return all changes from the pruned live object to the inputs; those matching `patterns` require a replacement."""
    forcing, excluded = tuple(patterns), tuple(ignored)
    found = [change for change in _members(old, new, ()) if not any(covers(path, change.path) for path in excluded)]
    return [replace(change, replace=any(forces(pattern, change.path, change.value) for pattern in forcing)) for change in found]


def confirmed(changes: list[Change], live: Object, query: Callable[[], Object | None]) -> list[Change]:
    """Return the changes that also change the stored object, given by `query` (None if the server refuses it)."""
    answer = query()
    if answer is None:
        return changes
    return [change for change in changes if change.verb == "delete" or not _same(_at(live, change), _at(answer, change))]


def _at(obj: Any, change: Change) -> Any:
    for part in change.path:
        if isinstance(part, int):
            obj = obj[part] if isinstance(obj, list) and part < len(obj) else MISSING
        else:
            obj = obj.get(part, MISSING) if isinstance(obj, Mapping) else MISSING
    return obj


def _members(old: Mapping[str, Any], new: Mapping[str, Any], path: Path) -> Iterator[Change]:
    for name in sorted({*old, *new}):
        yield from _value(old.get(name, MISSING), new.get(name, MISSING), (*path, name))


def _value(old: Any, new: Any, path: Path) -> Iterator[Change]:
    if new is MISSING:
        yield Change(path, "delete", old)
    elif old is MISSING:
        yield Change(path, "add", new)
    elif isinstance(old, Mapping) and isinstance(new, Mapping):
        yield from _members(old, new, path)
    elif isinstance(old, list) and isinstance(new, list):
        for place in range(max(len(old), len(new))):
            was, will = (values[place] if place < len(values) else MISSING for values in (old, new))
            yield from _value(was, will, (*path, place))
    elif isinstance(new, Unknown) or not _same(old, new):
        yield Change(path, "update", new)


def _same(old: Any, new: Any) -> bool:
    """Whether two values are equal, unlike Python distinguishing True from 1."""
    if isinstance(old, bool) is not isinstance(new, bool):
        return False
    return bool(old == new)
