"""Compare a resource's state with new inputs: what changes, and what requires a replacement.

New inputs are compared with the state, not with the old inputs, so changes made directly in AWS show after a refresh.
Only inputs that the program sets are compared, so AWS's own choices are never changes. An input that the program no
longer sets is compared with the default that the official provider assumes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from localcloud.engine.aws.documents import equivalent
from localcloud.engine.aws.resource import Prop
from localcloud.engine.codec import Unknown, has_unknowns
from localcloud.engine.paths import Path, covers

Kind = Literal["add", "update", "delete"]
PLAIN = Prop()


@dataclass(frozen=True)
class Change:
    """One difference, at one path."""

    path: Path
    kind: Kind
    replace: bool = False


@dataclass(frozen=True)
class Difference:
    """All changes, ordered by the first element of their paths."""

    changes: tuple[Change, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.changes)

    @property
    def keys(self) -> frozenset[str]:
        """The top-level properties that change."""
        return frozenset(str(change.path[0]) for change in self.changes)

    def forcing(self, keys: frozenset[str]) -> "Difference":
        """Return the same changes, with those of `keys` requiring a replacement."""
        return Difference(tuple(replace(one, replace=one.replace or one.path[0] in keys) for one in self.changes))

    @property
    def replaces(self) -> frozenset[str]:
        """The top-level properties whose change requires a replacement."""
        return frozenset(str(change.path[0]) for change in self.changes if change.replace)


def compare(
    props: Mapping[str, Prop], state: Mapping[str, Any], inputs: Mapping[str, Any], ignored: Iterable[Path] = ()
) -> Difference:
    """Return the changes that turn a resource in `state` into one with these `inputs`, except at `ignored` paths."""
    patterns = tuple(ignored)
    found = _members(props, state, inputs, (), replace=False)
    return Difference(tuple(change for change in found if not any(covers(pattern, change.path) for pattern in patterns)))


def same(prop: Prop, old: object, new: object) -> bool:
    """Whether a property with the value `old` in AWS already matches `new`."""
    return next(_value(prop, old, new, (), replace=False), None) is None


def _members(
    props: Mapping[str, Prop], old: Mapping[str, Any], new: Mapping[str, Any], path: Path, *, replace: bool
) -> Iterator[Change]:
    for name in sorted({*new, *props}):
        prop, wanted = props.get(name, PLAIN), new.get(name)
        forced = replace or prop.replace
        if wanted is not None:
            yield from _value(prop, old.get(name), wanted, (*path, name), replace=forced)
        elif prop.default is not None and not same(prop, old.get(name), prop.default):
            yield Change((*path, name), "update" if _blank(old.get(name)) else "delete", forced)


def _value(prop: Prop, old: Any, new: Any, path: Path, *, replace: bool) -> Iterator[Change]:
    if isinstance(new, Unknown):
        yield Change(path, "add" if _blank(old) else "update", replace)
    elif _blank(old) or _blank(new):
        if not (_blank(old) and _void(new)) and not (_blank(new) and _void(old)):
            yield Change(path, "add" if _blank(old) else "delete", replace)
    elif isinstance(old, Mapping) and isinstance(new, Mapping):
        yield from _members(prop.fields, old, new, path, replace=replace) if prop.fields else _map(old, new, path, replace)
    elif isinstance(old, Sequence) and isinstance(new, Sequence) and not isinstance(old, str) and not isinstance(new, str):
        element = Prop(fields=prop.fields)
        yield from (_set if prop.unordered else _list)(element, old, new, path, replace)
    elif not (equivalent(old, new) if prop.json else _scalar(old) == _scalar(new)):
        yield Change(path, "update", replace)


def _map(old: Mapping[str, Any], new: Mapping[str, Any], path: Path, replace: bool) -> Iterator[Change]:
    for name in sorted({*old, *new}):
        if name not in new:
            yield Change((*path, name), "delete", replace)
        elif name not in old:
            yield Change((*path, name), "add", replace)
        else:
            yield from _value(PLAIN, old[name], new[name], (*path, name), replace=replace)


def _list(element: Prop, old: Sequence[Any], new: Sequence[Any], path: Path, replace: bool) -> Iterator[Change]:
    for place in range(max(len(old), len(new))):
        if place >= len(new):
            yield Change((*path, place), "delete", replace)
        elif place >= len(old):
            yield Change((*path, place), "add", replace)
        else:
            yield from _value(element, old[place], new[place], (*path, place), replace=replace)


def _set(element: Prop, old: Sequence[Any], new: Sequence[Any], path: Path, replace: bool) -> Iterator[Change]:
    """Elements are added or removed; an element removed and one added at the same index count as an update."""
    partner = _pairs(element, old, new)
    gone = set(range(len(old))) - set(partner)
    came = set(range(len(new))) - set(partner.values())
    for place in sorted(gone | came):
        kind: Kind = "update" if place in gone and place in came else "add" if place in came else "delete"
        yield Change((*path, place), kind, replace)


def _pairs(element: Prop, old: Sequence[Any], new: Sequence[Any]) -> dict[int, int]:
    """Map old to new indexes for as many matching elements as possible. A new element may match several old ones, since
    it has only what the program sets, so each search may move earlier pairs (augmenting paths)."""
    partner: dict[int, int] = {}

    def place(wanted: int, tried: set[int]) -> bool:
        for candidate in range(len(old)):
            if candidate not in tried and same(element, old[candidate], new[wanted]):
                tried.add(candidate)
                if candidate not in partner or place(partner[candidate], tried):
                    partner[candidate] = wanted
                    return True
        return False

    for wanted in range(len(new)):
        place(wanted, set())
    return partner


def _blank(value: object) -> bool:
    """Whether AWS and Terraform treat the value as absent."""
    return value is None or (isinstance(value, str | Mapping | list | tuple) and not value)


def _void(value: object) -> bool:
    """Whether the value equals a missing one: empty, false or zero."""
    return not has_unknowns(value) and not value


def _scalar(value: object) -> object:
    """`1`, `1.0` and `"1"` are equal, and so are `True` and `"true"`: the official provider converts to the property's
    type."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value) if isinstance(value, int | float) else value
