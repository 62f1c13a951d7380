"""Read the planned operations from `pulumi preview`, and derive their effects on running jobs."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from cli.console import to_json
from cli.errors import CommandError, NotFound
from cli.stacks import pulumi_program
from infra.inventory.table import TABLE
from infra.naming import COMPONENT

CREATE, UPDATE, REPLACE, DELETE = "create", "update", "replace", "delete"
OPERATIONS: Final = {CREATE: "created", UPDATE: "changed", REPLACE: "replaced", DELETE: "deleted"}


@dataclass(frozen=True)
class Change:
    """A resource that is replaced or deleted, or whose change affects running jobs."""

    name: str
    type: str
    operation: str
    effect: str

    def __str__(self) -> str:
        effect = f": {self.effect}" if self.effect else ""
        return f"{self.name} ({self.type.rpartition(':')[2]}) is {OPERATIONS[self.operation]}{effect}"


@dataclass(frozen=True)
class Changes:
    counts: Mapping[str, int]
    """Maps each operation to the number of resources."""
    notable: Sequence[Change] = ()
    not_previewed: str = ""
    """Reason why there is no preview."""
    failed: bool = False
    """Whether a preview was requested but failed, so the changes are unknown."""

    def sentence(self) -> str:
        if self.not_previewed:
            return f"{'changes unknown' if self.failed else 'not previewed'}: {self.not_previewed}"
        counts = [f"{self.counts[operation]} {OPERATIONS[operation]}" for operation in OPERATIONS if self.counts.get(operation)]
        return ", ".join(counts) or "no changes"

    def as_json(self) -> dict[str, object]:
        return {
            "counts": None if self.not_previewed else {operation: self.counts.get(operation, 0) for operation in OPERATIONS},
            "resources": to_json(self.notable),
            "notPreviewed": self.not_previewed or None,
        }


def preview_changes(stack: str, file: Path | None = None) -> Changes:
    """Run `pulumi preview`. `file`, if given, is a stack file outside stacks/.

    A missing Pulumi stack does not count as a failed preview, because `up` would create everything.
    """
    elsewhere = ("--config-file", str(file.resolve())) if file else ()
    try:
        text = pulumi_program.run_pulumi("preview", "--json", "--stack", stack, *elsewhere)
    except NotFound:
        return Changes({}, not_previewed=f"there is no Pulumi stack {stack} yet, so `pulumi up` will create everything")
    except CommandError as error:
        return make_failed_preview(" ".join(str(error).split()))
    try:
        return parse_preview(json.loads(text))
    except ValueError as error:
        return make_failed_preview(f"pulumi preview printed no JSON: {error}")


def make_failed_preview(reason: str) -> Changes:
    return Changes({}, not_previewed=reason, failed=True)


def parse_preview(document: Mapping[str, Any]) -> Changes:
    """Parse the output of `pulumi preview --json`."""
    not_resources = (f"{COMPONENT}:", "pulumi:")  # leave out components, the stack itself and providers
    real = [
        step
        for step in document.get("steps", ())
        if _get_operation(step) and not _get_resource_type(step).startswith(not_resources)
    ]
    replaced = {step["urn"] for step in real if _get_operation(step) == REPLACE}
    counted = {(step["urn"], REPLACE if step["urn"] in replaced else _get_operation(step)) for step in real}
    notable = dict.fromkeys(_list_notable_changes(real, replaced))
    return Changes(Counter(operation for _, operation in counted if operation), tuple(notable))


def _list_notable_changes(steps: Iterable[Mapping[str, Any]], replaced: set[str]) -> Iterable[Change]:
    for step in steps:
        operation = REPLACE if step["urn"] in replaced else _get_operation(step) or ""
        name, type_name = step["urn"].rpartition("::")[2], _get_resource_type(step)
        effect = _describe_effect(type_name, operation, set(step.get("diffReasons") or ()))
        if operation in (REPLACE, DELETE) or effect:
            yield Change(name, type_name, operation, effect)


def _describe_effect(type_name: str, operation: str, changed_inputs: set[str]) -> str:
    """Return the effect of an operation on jobs and their files; empty if there is none."""
    entry = TABLE.get(type_name)
    if entry is None:
        return ""
    if operation == UPDATE and entry.rolling & changed_inputs:
        return "its nodes are replaced one by one: running jobs restart"
    return {REPLACE: entry.replaced, DELETE: entry.deleted}.get(operation, "")


def _get_operation(step: Mapping[str, Any]) -> str | None:
    """Return the operation of a step, or None if it changes nothing. All steps of a replacement return REPLACE."""
    operation: str = step["op"]
    if operation in ("create-replacement", "delete-replaced", "discard-replaced"):
        return REPLACE
    return operation if operation in OPERATIONS else None


def _get_resource_type(step: Mapping[str, Any]) -> str:
    state = step.get("newState") or step.get("oldState") or {}
    return str(state.get("type") or step["urn"].split("::")[2].rpartition("$")[2])
