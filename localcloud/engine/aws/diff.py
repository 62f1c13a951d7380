"""Compute which inputs of a resource change, and which of these changes require a replacement.

New inputs are compared with the state, not with the old inputs, so a refresh reveals changes made directly in AWS. Only
inputs that the program sets are compared, so values chosen by AWS never count as changes. If the program stops setting
an input, the value in the state is compared with the official provider's default.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from localcloud.engine.aws.documents import is_equivalent_json
from localcloud.engine.aws.resource import Prop
from localcloud.engine.codec import Unknown, has_unknowns
from localcloud.engine.paths import Path, covers

Kind = Literal["add", "update", "delete"]
PLAIN = Prop()


@dataclass(frozen=True)
class Change:
    """A change of the value at one path."""

    path: Path
    kind: Kind
    replace: bool = False


@dataclass(frozen=True)
class Difference:
    """All changes of a resource, sorted by top-level property."""

    changes: tuple[Change, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.changes)

    @property
    def keys(self) -> frozenset[str]:
        """Names of the changed top-level properties."""
        return frozenset(str(change.path[0]) for change in self.changes)

    def with_forced_replacement(self, keys: frozenset[str]) -> "Difference":
        """Return a copy in which changes of the properties in `keys` require a replacement."""
        return Difference(tuple(replace(change, replace=change.replace or change.path[0] in keys) for change in self.changes))

    @property
    def replaces(self) -> frozenset[str]:
        """Names of the top-level properties whose change requires a replacement."""
        return frozenset(str(change.path[0]) for change in self.changes if change.replace)


def compare(
    props: Mapping[str, Prop], state: Mapping[str, Any], inputs: Mapping[str, Any], ignored: Iterable[Path] = ()
) -> Difference:
    """Return the changes between `state` and `inputs`, except at the `ignored` paths."""
    patterns = tuple(ignored)
    changes = _compare_members(props, state, inputs, (), replace=False)
    return Difference(tuple(change for change in changes if not any(covers(pattern, change.path) for pattern in patterns)))


def is_same(prop: Prop, old: object, new: object) -> bool:
    """Return whether the value `old` in AWS already matches the input `new`."""
    return next(_compare_values(prop, old, new, (), replace=False), None) is None


def _compare_members(
    props: Mapping[str, Prop], old: Mapping[str, Any], new: Mapping[str, Any], path: Path, *, replace: bool
) -> Iterator[Change]:
    for name in sorted({*new, *props}):
        prop, new_value = props.get(name, PLAIN), new.get(name)
        forced = replace or prop.replace
        if new_value is not None:
            yield from _compare_values(prop, old.get(name), new_value, (*path, name), replace=forced)
        elif prop.default is not None and not is_same(prop, old.get(name), prop.default):
            yield Change((*path, name), "update" if _is_blank(old.get(name)) else "delete", forced)


def _compare_values(prop: Prop, old: Any, new: Any, path: Path, *, replace: bool) -> Iterator[Change]:
    if isinstance(new, Unknown):
        yield Change(path, "add" if _is_blank(old) else "update", replace)
    elif _is_blank(old) or _is_blank(new):
        if not (_is_blank(old) and _is_zero_value(new)) and not (_is_blank(new) and _is_zero_value(old)):
            yield Change(path, "add" if _is_blank(old) else "delete", replace)
    elif isinstance(old, Mapping) and isinstance(new, Mapping):
        yield from (
            _compare_members(prop.fields, old, new, path, replace=replace)
            if prop.fields
            else _compare_maps(old, new, path, replace)
        )
    elif isinstance(old, Sequence) and isinstance(new, Sequence) and not isinstance(old, str) and not isinstance(new, str):
        element = Prop(fields=prop.fields)
        yield from (_compare_sets if prop.unordered else _compare_lists)(element, old, new, path, replace)
    elif not (is_equivalent_json(old, new) if prop.json else _normalize_scalar(old) == _normalize_scalar(new)):
        yield Change(path, "update", replace)


def _compare_maps(old: Mapping[str, Any], new: Mapping[str, Any], path: Path, replace: bool) -> Iterator[Change]:
    for name in sorted({*old, *new}):
        if name not in new:
            yield Change((*path, name), "delete", replace)
        elif name not in old:
            yield Change((*path, name), "add", replace)
        else:
            yield from _compare_values(PLAIN, old[name], new[name], (*path, name), replace=replace)


def _compare_lists(element: Prop, old: Sequence[Any], new: Sequence[Any], path: Path, replace: bool) -> Iterator[Change]:
    for place in range(max(len(old), len(new))):
        if place >= len(new):
            yield Change((*path, place), "delete", replace)
        elif place >= len(old):
            yield Change((*path, place), "add", replace)
        else:
            yield from _compare_values(element, old[place], new[place], (*path, place), replace=replace)


def _compare_sets(element: Prop, old: Sequence[Any], new: Sequence[Any], path: Path, replace: bool) -> Iterator[Change]:
    """Compare sets. A removal and an addition at the same index count as an update."""
    partner = _match_elements(element, old, new)
    gone = set(range(len(old))) - set(partner)
    came = set(range(len(new))) - set(partner.values())
    for place in sorted(gone | came):
        kind: Kind = "update" if place in gone and place in came else "add" if place in came else "delete"
        yield Change((*path, place), kind, replace)


def _match_elements(element: Prop, old: Sequence[Any], new: Sequence[Any]) -> dict[int, int]:
    """Map old indexes to new indexes for as many matching elements as possible. A new element may match several old
    ones, because it contains only the properties that the program sets. Therefore, each search may reassign earlier
    pairs (augmenting paths)."""
    partner: dict[int, int] = {}

    def assign_partner(new_index: int, tried: set[int]) -> bool:
        for candidate in range(len(old)):
            if candidate not in tried and is_same(element, old[candidate], new[new_index]):
                tried.add(candidate)
                if candidate not in partner or assign_partner(partner[candidate], tried):
                    partner[candidate] = new_index
                    return True
        return False

    for new_index in range(len(new)):
        assign_partner(new_index, set())
    return partner


def _is_blank(value: object) -> bool:
    """Return whether AWS and Terraform treat the value as absent."""
    return value is None or (isinstance(value, str | Mapping | list | tuple) and not value)


def _is_zero_value(value: object) -> bool:
    """Return whether the value is equivalent to a missing value, that is, empty, false or zero."""
    return not has_unknowns(value) and not value


def _normalize_scalar(value: object) -> object:
    """Normalize a scalar: `1`, `1.0` and `"1"` are equal, as are `True` and `"true"`. The official provider converts
    inputs to the property's type."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value) if isinstance(value, int | float) else value
