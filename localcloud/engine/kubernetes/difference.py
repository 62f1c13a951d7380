"""Comparison of an object with new inputs.

As in the official provider, the last known live object is pruned to the fields in its inputs and then compared with the
new inputs. A dry run then filters out changes that have no effect on the stored object, such as `0.5` CPUs instead of
`500m`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from localcloud.engine.codec import Unknown
from localcloud.engine.kubernetes.immutable import affects_pattern
from localcloud.engine.kubernetes.objects import Object
from localcloud.engine.paths import Path, covers

Verb = Literal["add", "update", "delete"]
MISSING = object()


@dataclass(frozen=True)
class Change:
    """A change of the value at one path."""

    path: Path
    verb: Verb
    value: Any = None
    """The new value or, for a deletion, the old value."""
    replace: bool = False


def compare(old: Object, new: Object, patterns: Iterable[Path], ignored: Iterable[Path] = ()) -> list[Change]:
    """Return all differences between the pruned live object and the inputs. Changes that match `patterns` require a
    replacement."""
    forcing, excluded = tuple(patterns), tuple(ignored)
    changes = [change for change in _compare_members(old, new, ()) if not any(covers(path, change.path) for path in excluded)]
    return [
        replace(change, replace=any(affects_pattern(pattern, change.path, change.value) for pattern in forcing))
        for change in changes
    ]


def select_effective_changes(changes: list[Change], live: Object, query: Callable[[], Object | None]) -> list[Change]:
    """Return the changes that affect the stored object. `query` returns the object that the server would store, or None
    if the server rejects the inputs."""
    answer = query()
    if answer is None:
        return changes
    return [
        change
        for change in changes
        if change.verb == "delete" or not _is_same(_get_value_at(live, change), _get_value_at(answer, change))
    ]


def _get_value_at(obj: Any, change: Change) -> Any:
    for part in change.path:
        if isinstance(part, int):
            obj = obj[part] if isinstance(obj, list) and part < len(obj) else MISSING
        else:
            obj = obj.get(part, MISSING) if isinstance(obj, Mapping) else MISSING
    return obj


def _compare_members(old: Mapping[str, Any], new: Mapping[str, Any], path: Path) -> Iterator[Change]:
    for name in sorted({*old, *new}):
        yield from _compare_values(old.get(name, MISSING), new.get(name, MISSING), (*path, name))


def _compare_values(old: Any, new: Any, path: Path) -> Iterator[Change]:
    if new is MISSING:
        yield Change(path, "delete", old)
    elif old is MISSING:
        yield Change(path, "add", new)
    elif isinstance(old, Mapping) and isinstance(new, Mapping):
        yield from _compare_members(old, new, path)
    elif isinstance(old, list) and isinstance(new, list):
        for place in range(max(len(old), len(new))):
            was, will = (values[place] if place < len(values) else MISSING for values in (old, new))
            yield from _compare_values(was, will, (*path, place))
    elif isinstance(new, Unknown) or not _is_same(old, new):
        yield Change(path, "update", new)


def _is_same(old: Any, new: Any) -> bool:
    """Return whether two values are equal. Unlike in Python, True and 1 differ."""
    if isinstance(old, bool) is not isinstance(new, bool):
        return False
    return bool(old == new)
