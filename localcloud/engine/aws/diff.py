"""What a new set of inputs changes about a resource, and what of it needs a new one.

New inputs are compared with the state, not with the old inputs: what somebody changed in AWS shows after a refresh. Only what
the program says is compared, so that AWS's own choices are never changes; what the program no longer says is compared with
the default that the official provider assumes.
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
    """One place that differs."""

    path: Path
    kind: Kind
    replace: bool = False


@dataclass(frozen=True)
class Difference:
    """All places that differ, in the order of their paths' first members."""

    changes: tuple[Change, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.changes)

    @property
    def keys(self) -> frozenset[str]:
        """The top-level properties that change."""
        return frozenset(str(change.path[0]) for change in self.changes)

    def forcing(self, keys: frozenset[str]) -> "Difference":
        """The same places, those of `keys` with a new resource."""
        return Difference(tuple(replace(one, replace=one.replace or one.path[0] in keys) for one in self.changes))

    @property
    def replaces(self) -> frozenset[str]:
        """The top-level properties whose change needs a new resource."""
        return frozenset(str(change.path[0]) for change in self.changes if change.replace)


def compare(
    props: Mapping[str, Prop], state: Mapping[str, Any], inputs: Mapping[str, Any], ignored: Iterable[Path] = ()
) -> Difference:
    """What makes a resource in `state` into one with these `inputs`, apart from the `ignored` places."""
    patterns = tuple(ignored)
    found = _members(props, state, inputs, (), replace=False)
    return Difference(tuple(change for change in found if not any(covers(pattern, change.path) for pattern in patterns)))


def same(prop: Prop, old: object, new: object) -> bool:
    """Whether a property that AWS has as `old` is already what `new` asks for."""
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
    """Elements are there or not; where one left and one came at the same place, that place changed."""
    partner = _pairs(element, old, new)
    gone = set(range(len(old))) - set(partner)
    came = set(range(len(new))) - set(partner.values())
    for place in sorted(gone | came):
        kind: Kind = "update" if place in gone and place in came else "add" if place in came else "delete"
        yield Change((*path, place), kind, replace)


def _pairs(element: Prop, old: Sequence[Any], new: Sequence[Any]) -> dict[int, int]:
    """Old place -> new place for as many elements as can be the same. A new element may match several old ones, since it
    says only what the program says: so each search may move earlier pairs (augmenting paths)."""
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
    """Nothing, as far as AWS and Terraform can tell."""
    return value is None or (isinstance(value, str | Mapping | list | tuple) and not value)


def _void(value: object) -> bool:
    """What a missing value means: nothing, no or zero."""
    return not has_unknowns(value) and not value


def _scalar(value: object) -> object:
    """`1`, `1.0` and `"1"` are one value, `True` and `"true"` another: the official provider converts to the property's type."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value) if isinstance(value, int | float) else value
