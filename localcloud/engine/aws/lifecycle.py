"""Resource lifecycle on plain values: check, create, read, update, delete. Used by the gRPC provider and the mocks.

Handlers contain the AWS-specific code. This module adds what the engine expects: defaults, generated names, and the
state after failures.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from localcloud.engine.aws.autonaming import NameTooLong, Wish, generate_name
from localcloud.engine.aws.diff import Difference, compare, is_same
from localcloud.engine.aws.failures import EXPECTED, format_failure
from localcloud.engine.aws.resource import Args, Aws, Gone, Partial, Prop, Resource, State
from localcloud.engine.codec import UNKNOWN
from localcloud.engine.paths import Path, format_path, parse, restore_values

log = logging.getLogger(__name__)

DEFAULTS = "__defaults"
"""Input that lists the inputs set by the official provider itself. The engine hides this list from users."""


class OperationFailed(Exception):
    """The operation failed without changing anything that the engine must record."""


class InitializationFailed(Exception):
    """The resource exists but was not fully initialized. The engine records `id` and `state`. See `Partial`."""

    def __init__(self, id: str, state: State, reason: str) -> None:
        super().__init__(reason)
        self.id = id
        self.state = state


@dataclass(frozen=True)
class Refusal:
    """An unsupported or invalid input, and the reason for rejecting it."""

    path: str
    reason: str


@dataclass(frozen=True)
class Made:
    """Id and state of a created resource."""

    id: str
    state: State


def check(resource: Resource, logical: str, inputs: Args, previous: Mapping[str, Any], wish: Wish) -> tuple[Args, list[Refusal]]:
    """Return the inputs with the generated name, and one refusal per unsupported input."""
    named_inputs = {name: value for name, value in inputs.items() if name != DEFAULTS}
    refusals = [
        Refusal(format_path(path), f'the local provider does not support "{format_path(path)}" of {resource.token}')
        for path in _find_unsupported(resource.props, named_inputs, ())
    ]
    filled: list[str] = []
    rule = resource.auto_name
    if rule:
        before = previous.get(rule.property) if rule.property in previous.get(DEFAULTS, ()) else None
        try:
            name = generate_name(rule, logical, named_inputs, before, wish)
        except NameTooLong as error:
            refusals.append(Refusal(rule.property, str(error)))
            name = None
        if name:
            named_inputs[rule.property] = name
            filled = [rule.property]
    return {**named_inputs, DEFAULTS: filled}, refusals


def _find_unsupported(props: Mapping[str, Prop], inputs: Mapping[str, Any], path: Path) -> list[Path]:
    unsupported: list[Path] = []
    for name, value in inputs.items():
        here = (*path, name)
        if name not in props:
            unsupported.append(here)
        elif fields := props[name].fields:
            parts = enumerate(value) if isinstance(value, list) else [(None, value)]
            for place, part in parts:
                if isinstance(part, Mapping):
                    unsupported += _find_unsupported(fields, part, here if place is None else (*here, place))
    return unsupported


def compute_difference(resource: Resource, state: Mapping[str, Any], inputs: Args, ignored: Iterable[str] = ()) -> Difference:
    """Return the changes between `state` and `inputs`."""
    args = remove_internal_inputs(inputs)
    changes = compare(resource.props, state, args, [parse(text) for text in ignored])
    return changes.with_forced_replacement(resource.find_replacement_triggers(dict(state), args, changes.keys))


def must_delete_before_replace(resource: Resource, inputs: Args, difference: Difference) -> bool:
    """Return whether the engine must delete the old resource before it creates the replacement.

    Resource types with `delete_before_replace` require this order. Other types require it if the program sets the name
    and does not change it, since two resources cannot share a name.
    """
    rule = resource.auto_name
    if resource.delete_before_replace and difference.replaces:
        return True
    if not rule or not difference.replaces or rule.property not in inputs or DEFAULTS not in inputs:
        return False
    named = {rule.property, *rule.unless} & inputs.keys()
    return rule.property not in inputs[DEFAULTS] and not named & difference.keys


def preview_creation(resource: Resource, inputs: Args) -> State:
    """Return the state that a preview shows for a new resource: its inputs."""
    state = remove_internal_inputs(inputs)
    for text in resource.nested_outputs:
        head, *rest = parse(text)
        if head in state:
            state[str(head)] = _insert_unknown(state[str(head)], tuple(rest))
    return state


def _insert_unknown(value: Any, path: Path) -> Any:
    if isinstance(value, list):
        return [_insert_unknown(element, path) for element in value]
    if not isinstance(value, dict):
        return value
    head, rest = str(path[0]), path[1:]
    return {**value, head: _insert_unknown(value.get(head, {}), rest) if rest else value.get(head, UNKNOWN)}


def create(resource: Resource, aws: Aws, logical: str, inputs: Args) -> Made:
    """Create the resource. If the resource failed after AWS had created it, raise `InitializationFailed` with the
    requested inputs in the state. See `Partial`."""
    args = remove_internal_inputs(inputs)
    doing = f"creating {resource.title} ({_get_name(resource, args) or logical})"
    try:
        id = resource.create(aws, args)
    except Partial as error:
        partial = _read_after_failure(resource, aws, error.id, args)
        state = _complete_state(resource, error.id, {**partial, **args}, args)
        raise InitializationFailed(error.id, state, format_failure(doing, error)) from error
    except Exception as error:
        _log_unexpected(doing, error)
        raise OperationFailed(format_failure(doing, error)) from error
    doing = f"reading {resource.title} ({id})"
    try:
        current = resource.read(aws, id, args)
    except Exception as error:
        _log_unexpected(doing, error)
        raise InitializationFailed(id, _complete_state(resource, id, args, args), format_failure(doing, error)) from error
    if current is None:
        raise OperationFailed(f"{doing}: couldn't find resource")
    return Made(id, _complete_state(resource, id, current, args))


def read(resource: Resource, aws: Aws, id: str, recorded: State) -> State | None:
    """Return the resource's current state in AWS, or None if it is gone."""
    doing = f"reading {resource.title} ({id})"
    try:
        state = resource.read(aws, id, recorded)
    except Gone:
        return None
    except Exception as error:
        _log_unexpected(doing, error)
        raise OperationFailed(format_failure(doing, error)) from error
    return None if state is None else _complete_state(resource, id, state, recorded)


def refresh_inputs(resource: Resource, inputs: Args, state: State) -> Args:
    """Return the inputs that a refresh records: the program's inputs with their current values in AWS or, after an
    import, all inputs."""
    if not inputs:
        all_inputs = {name: state[name] for name, prop in resource.props.items() if not _is_default(prop, state.get(name))}
        return {**all_inputs, DEFAULTS: []}
    return {
        name: value if name not in resource.props or is_same(resource.props[name], state.get(name), value) else state[name]
        for name, value in inputs.items()
        if name not in resource.props or name in state or is_same(resource.props[name], None, value)
    }


def preview_update(resource: Resource, state: State, inputs: Args, ignored: Iterable[str]) -> State:
    """Return the state that the preview of an update shows."""
    changed = compute_difference(resource, state, inputs, ignored).keys
    unchanged = {name: value for name, value in state.items() if name not in changed}
    news = {name: value for name, value in _restore_ignored(state, inputs, ignored).items() if name in changed}
    for text in resource.nested_outputs:
        news = {name: value for name, value in restore_values(news, state, parse(text)).items() if name in news}
    unknown = dict.fromkeys(resource.find_recomputed_outputs(changed) if changed else (), UNKNOWN)
    return {**unchanged, **news, **({"tagsAll": news.get("tags", {})} if "tags" in changed else {}), **unknown}


def update(resource: Resource, aws: Aws, id: str, state: State, inputs: Args, ignored: Iterable[str]) -> State:
    """Change the resource in place. After a failure, record the resource's current state in AWS, so that the next
    update starts from that state."""
    changed = compute_difference(resource, state, inputs, ignored).keys
    args = _restore_ignored(state, inputs, ignored)
    doing = f"updating {resource.title} ({id})"
    if changed:
        try:
            resource.update(aws, id, state, args, changed)
        except Exception as error:
            _log_unexpected(doing, error)
            partial = _read_after_failure(resource, aws, id, state) or state
            raise InitializationFailed(id, _complete_state(resource, id, partial, state), format_failure(doing, error)) from error
    dropped = {name for name, prop in resource.props.items() if prop.write_only and name not in args}
    current = read(resource, aws, id, {**{name: value for name, value in state.items() if name not in dropped}, **args})
    if current is None:
        raise OperationFailed(f"{doing}: couldn't find resource; `pulumi refresh` removes it from the state")
    return current


def delete(resource: Resource, aws: Aws, id: str, state: State) -> None:
    """Delete the resource. A resource that is already gone counts as deleted."""
    doing = f"deleting {resource.title} ({id})"
    try:
        resource.delete(aws, id, state)
    except Gone:
        return
    except Exception as error:
        _log_unexpected(doing, error)
        raise OperationFailed(format_failure(doing, error)) from error


def remove_internal_inputs(inputs: Mapping[str, Any]) -> Args:
    """Return the inputs for a handler, without the engine's internal inputs."""
    return {name: value for name, value in inputs.items() if not name.startswith("__")}


def _restore_ignored(state: State, inputs: Args, ignored: Iterable[str]) -> Args:
    """Return the inputs with AWS's current values at ignored paths, so that an update does not revert them."""
    args = remove_internal_inputs(inputs)
    for text in ignored:
        args = restore_values(args, state, parse(text))
    return {name: value for name, value in args.items() if name in inputs}


def _complete_state(resource: Resource, id: str, state: State, inputs: Mapping[str, Any]) -> State:
    """Return the state plus the inputs that AWS never returns. JSON documents keep the program's formatting if they are
    equivalent."""
    whole = {name: value for name, value in state.items() if value is not None}
    for name, prop in resource.props.items():
        if name in inputs and (prop.write_only or (prop.json and is_same(prop, whole.get(name), inputs[name]))):
            whole[name] = inputs[name]
    return {**whole, "id": id}


def _read_after_failure(resource: Resource, aws: Aws, id: str, recorded: State) -> State:
    try:
        return resource.read(aws, id, recorded) or {}
    except Exception:
        log.debug("reading %s after a failure", id, exc_info=True)
        return {}


def _is_default(prop: Prop, value: object) -> bool:
    return value is None or (prop.default is not None and is_same(prop, value, prop.default))


def _get_name(resource: Resource, args: Args) -> str | None:
    name = args.get(resource.auto_name.property) if resource.auto_name else None
    return str(name) if name else None


def _log_unexpected(doing: str, error: Exception) -> None:
    if not isinstance(error, EXPECTED):
        log.error("%s", doing, exc_info=error)
