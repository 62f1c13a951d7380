"""Inventory of leftovers: resources that clients created in the accounts and did not delete.

The inventory compares the state of every backend that moto created (service, account, region) with a fresh backend. It
needs no list of resource types: any resource that a fresh account does not have is a leftover, unless the resource was
deleted, was terminated or has expired.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from moto.core.base_backend import BackendDict

from localcloud.aws import patching
from localcloud.aws.inventory import pristine, rules
from localcloud.aws.inventory.state import A_TIME, Path, State, read_state


@dataclass(frozen=True)
class Leftover:
    service: str
    account: str
    region: str
    """Region, or `aws` for global services."""
    container: str
    """Path to the attribute or container in which moto stores the resource."""
    key: str
    """Key of the resource at that path, usually its id or name."""
    description: str

    def __str__(self) -> str:
        return f"{self.service} {self.region}: {self.container}[{self.key}] {self.description}"


_accepted: dict[tuple[str, str, str], State] = {}
"""Maps a service, account and region to the state when `accept` was called."""


def list_leftovers() -> list[Leftover]:
    """Return every resource that a client created and did not delete. In a fresh account, there are none."""
    return [
        _build_leftover(service, account, region, *item)
        for service, account, region, backend in _list_backends()
        for item in _find_differences(
            backend, _accepted.get((service, account, region)) or read_state(pristine.create_fresh_copy(service, backend))
        )
    ]


def accept_current_resources() -> None:
    """Until the next reset, do not report the current resources as leftovers: they existed before the stack."""
    _accepted.update({(service, account, region): read_state(backend) for service, account, region, backend in _list_backends()})


@patching.on_reset
def _reset_accepted() -> None:
    _accepted.clear()


def _list_backends() -> list[tuple[str, str, str, Any]]:
    instances: list[Any] = list(BackendDict._instances)  # type: ignore[misc]
    return [(str(backends.service_name), *backend) for backends in instances for backend in list(backends.iter_backends())]


def _find_differences(backend: Any, first: State) -> Iterator[tuple[Path, str]]:
    """Yield the path and description of each difference between the backend's current state and `first`.

    If an object is new, its parts are not reported separately.
    """
    now = read_state(backend)
    initial_paths = first.list_prefixes() | set(first.things)
    gone = _list_ended_names(now)
    reported: set[Path] = set()
    for path, value in now.leaves.items():
        if path in first.leaves:
            if (
                value != first.leaves[path]
                and A_TIME not in (value, first.leaves[path])
                and not _is_irrelevant_change(path, value)
            ):
                yield path, f"changed from {first.leaves[path]!r} to {value!r}"
            continue
        outermost = next(path[:end] for end in range(1, len(path) + 1) if path[:end] not in initial_paths)
        if (
            outermost in reported
            or _is_irrelevant_change(path, value)
            or _is_excluded(path, now, gone)
            or _is_tag_of_new_resource(path, now, initial_paths)
        ):
            continue
        reported.add(outermost)
        yield outermost, _describe_resource(now.things.get(outermost, value))


def _list_ended_names(state: State) -> set[str]:
    """Return the keys of ended resources. moto keeps related data in other containers under the same keys."""
    return {path[-1] for path, thing in state.things.items() if rules.has_ended(thing) and not path[-1].isdigit()}


def _is_excluded(path: Path, state: State, gone: set[str]) -> bool:
    if rules.is_history(path) or not gone.isdisjoint(path):
        return True
    for end in range(1, len(path) + 1):
        thing = state.things.get(path[:end])
        if rules.is_owned_by_aws(path[:end], thing):
            return True
        if thing is not None and (rules.has_ended(thing) or rules.is_session(thing)):
            return True
    return False


def _is_irrelevant_change(path: Path, value: str) -> bool:
    """Return whether a change affects history, a cache or one of moto's counters, but not a resource.

    Counters are numbers stored directly on a backend.
    """
    return rules.is_history(path) or rules.is_derived_or_empty(path) or (len(path) == 1 and value.lstrip("-").isdigit())


def _is_tag_of_new_resource(path: Path, state: State, initial_paths: set[Path]) -> bool:
    """Return whether the path is a tag of a resource that a fresh account does not have.

    moto stores tags separately from resources and often keeps them longer. A tag is reported as a leftover only if a
    fresh account has the tagged resource. For other resources, the resource itself is reported.
    """
    if "tags" not in path or path.index("tags") + 1 >= len(path):
        return False
    at = path.index("tags")
    owner = state.things.get(path[:at])
    if at > 1 or (at == 1 and type(owner).__name__ != "TaggingService"):
        return False
    on = path[at + 1]
    names = {on, on.rsplit("/", 1)[-1], on.rsplit(":", 1)[-1]}
    return not any(names.intersection(known_path) for known_path in initial_paths)


def _describe_resource(thing: Any) -> str:
    name = next((text for member in ("arn", "id", "name") if (text := _read_text_member(thing, member))), "")
    if isinstance(thing, str):
        return repr(thing)
    return " ".join(part for part in (type(thing).__name__, name) if part)


def _read_text_member(thing: Any, member: str) -> str:
    try:
        value = getattr(thing, member, None)
    except Exception:  # a property that raises an error while the state is incomplete
        return ""
    return value if isinstance(value, str) else ""


def _build_leftover(service: str, account: str, region: str, path: Path, description: str) -> Leftover:
    return Leftover(service, account, region, ".".join(path[:-1]) or path[-1], path[-1], description)
