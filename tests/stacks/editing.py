"""Edited stack files, and what a Pulumi operation does to each resource."""

import copy
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from localcloud.instance import LocalCloud
from localcloud.stack import LocalStack, Run
from tests.stacks.changes import Change

DATA = Path(__file__).parent / "data"
Values = dict[str, Any]
REMOVED = object()
"""Marks a setting that a change removes."""
_REPLACING = {"create-replacement", "delete-replaced", "replace"}


def read_settings(stack: LocalStack) -> Values:
    """Return the `gpumpi:` settings of the stack file. If the local cloud has no Kubernetes, turn off the platform and
    omit the jobs.
    """
    config: Values = yaml.safe_load(stack.source.read_text())["config"]
    values = {key.removeprefix("gpumpi:"): value for key, value in config.items() if key.startswith("gpumpi:")}
    if values["target"]["kind"] == "eks" and not stack.cloud.has_kubernetes:
        values["platform"] = {**values.get("platform", {}), "install": False}
        values.pop("jobs", None)
    return values


def apply_changes(values: Values, changes: Mapping[str, Any]) -> Values:
    """Return a copy of the settings with new values at the given paths, such as `pools[0].maxSize`."""
    changed = copy.deepcopy(values)
    for path, value in changes.items():
        *way, last = [int(step) if step.isdecimal() else step for step in re.findall(r"[^.\[\]]+", path)]
        place: Any = changed
        for step in way:
            place = place[step] if isinstance(place, list) else place.setdefault(step, {})
        if value is REMOVED:
            del place[last]
        elif isinstance(place, list) and last == len(place):
            place.append(value)
        else:
            place[last] = value
    return changed


def write_settings(stack: LocalStack, values: Values) -> None:
    """Write the settings to the copy that the engine reads; the user's file stays unchanged."""
    document = yaml.safe_load(stack.config_file.read_text())
    foreign = {key: value for key, value in document["config"].items() if not key.startswith("gpumpi:")}
    config = foreign | {f"gpumpi:{key}": value for key, value in values.items()}
    stack.config_file.write_text(yaml.safe_dump({**document, "config": config}, sort_keys=False))


def group_operations(run: Run) -> dict[str, set[str]]:
    """Return a mapping from operations to the names of AWS and Kubernetes resources, without the cluster name.
    Unchanged resources are omitted.
    """
    done: dict[str, set[str]] = {}
    for step in run.steps:
        if step.type.startswith(("aws:", "kubernetes:")) and step.operation != "same":
            operation = "replace" if step.operation in _REPLACING else step.operation
            done.setdefault(operation, set()).add(re.sub(r"^gpumpi-[a-z]+-", "", step.name))
    return done


def deploy_stack(cloud: LocalCloud, name: str) -> LocalStack:
    """Create the existing resources to which a stack file in data/ refers, then deploy the stack."""
    stack = LocalStack(cloud, name, DATA)
    stack.prepare()
    stack.create_prerequisites()
    up = stack.run("up")
    assert up.ok, up.output
    return stack


def preview_changes(stack: LocalStack, values: Values, changes: Sequence[Change]) -> dict[str, set[str]]:
    """Create the resources to which the changes refer, preview all changes together, and return the operations."""
    changed = apply_changes(values, {path: value for change in changes for path, value in change.values.items()})
    stack.cloud.control().create_prerequisites("us-west-2", changed)
    write_settings(stack, changed)
    preview = stack.run("preview")
    assert preview.ok, preview.output
    return group_operations(preview)


def write_stack_file(stack: LocalStack, values: Values, folder: Path) -> None:
    """Write a stack file with these settings into a folder."""
    config = {"aws:region": "us-west-2"} | {f"gpumpi:{key}": value for key, value in values.items()}
    (folder / f"Pulumi.{stack.name}.yaml").write_text(yaml.safe_dump({"config": config}, sort_keys=False))
