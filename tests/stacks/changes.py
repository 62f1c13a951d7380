"""Changes to settings, and the resources that they affect in a deployed cluster."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import pytest

Touched = Mapping[str, tuple[str, ...]]
"""Maps an operation to patterns of resource names, without the cluster name as prefix."""
NOTHING: Touched = {}


def expect_updates(*names: str) -> Touched:
    return {"update": names}


def expect_creations(*names: str) -> Touched:
    return {"create": names}


def expect_deletions(*names: str) -> Touched:
    return {"delete": names}


def expect_rollout(pool: str) -> Touched:
    """Expect a new version of the launch template. EKS then replaces each node in the pool."""
    return expect_updates(pool, f"{pool}-launch-template")


def expect_replacement(pool: str) -> Touched:
    """Expect a new node group, and therefore a new Auto Scaling group with new tags."""
    return {"replace": (pool, f"{pool}-tag-*")}


def expect_recreation(*names: str) -> Touched:
    return {"replace": names}


def expect_all(*parts: Touched) -> Touched:
    operations = {operation for part in parts for operation in part}
    return {operation: tuple(name for part in parts for name in part.get(operation, ())) for operation in operations}


@dataclass(frozen=True)
class Change:
    """A new value for a setting, and the resources that the change affects."""

    setting: str
    """The setting's row in the output of `scripts/cluster settings`."""
    values: Mapping[str, Any]
    touches: Touched


@dataclass(frozen=True)
class Refused:
    """A new value for a setting that a deployed cluster rejects."""

    setting: str
    values: Mapping[str, Any]
    problem: str


def make_change(path: str, value: Any, touches: Touched, setting: str = "") -> Change:
    return Change(setting or (f"pools[]{path[8:]}" if path.startswith("pools[") else path), {path: value}, touches)


def list_cases(tables: Iterable[str], *short: str) -> list[Any]:
    """Return parameters for a test of `tables`. `make test` runs only the cases in `short`; `make mission` runs all cases."""
    return [pytest.param(name, marks=() if name in short else pytest.mark.mission_only) for name in tables]


def find_differences(operations: Mapping[str, set[str]], changes: Sequence[Change]) -> tuple[list[str], list[str]]:
    """Return the unexpected operations, and the expected operations that are missing."""
    expected = {(operation, pattern) for row in changes for operation, patterns in row.touches.items() for pattern in patterns}
    unexpected = [
        f"{operation} {resource}"
        for operation, resources in operations.items()
        for resource in sorted(resources)
        if not any(operation == verb and fnmatchcase(resource, pattern) for verb, pattern in expected)
    ]
    missing = [
        f"{operation} {pattern}"
        for operation, pattern in sorted(expected)
        if not any(fnmatchcase(resource, pattern) for resource in operations.get(operation, ()))
    ]
    return unexpected, missing
