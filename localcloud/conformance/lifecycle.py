"""Run one side of the comparison: a stack from preview to destroy. Record the changes and errors of each step."""

import json
import os
import subprocess
from dataclasses import dataclass, field
from typing import Any

from localcloud.conformance.compare import collect_resources, mask_variable_text
from localcloud.control import ControlError
from localcloud.stack import LocalStack, PulumiError, Run, Verb

VPC = "aws:ec2/vpc:Vpc"
DRIFTED = ("namespace", "mpi-jobs", "gpumpi.io/jobs=drifted")
"""Kind and name of an object that the platform owns, and the label to change on it."""


@dataclass
class Side:
    """Results of one run of a stack."""

    steps: dict[str, Any] = field(default_factory=dict)
    resources: dict[str, Any] = field(default_factory=dict)
    """Resources after `up` and a refresh."""

    def add(self, name: str, run: Run) -> None:
        self.steps[name] = {
            "ok": run.ok,
            "changes": dict(run.changed),
            "errors": [mask_variable_text(text) for text in run.errors],
        }


def run_lifecycle(stack: LocalStack) -> Side:
    """Run every step, even if an earlier step fails: both sides must fail in the same way."""
    side = Side()
    control = stack.cloud.control()
    stack.prepare()
    stack.create_prerequisites()
    control.set_baseline()
    for name, verb in _VERBS:
        if name == "refresh after drift":
            side.resources = collect_resources(stack.export_state())
            side.steps["drift"] = _cause_drift(stack)
        side.add(name, stack.run(verb))
    side.steps["left"] = [mask_variable_text(str(leftover)) for leftover in control.leftovers()]
    return side


_VERBS: tuple[tuple[str, Verb], ...] = (
    ("preview", "preview"),
    ("up", "up"),
    ("unchanged up", "up"),
    ("refresh", "refresh"),
    ("refresh after drift", "refresh"),
    ("up after drift", "up"),
    ("destroy", "destroy"),
)


def find_failure(side: Side) -> str | None:
    """Return the first failure, unexpected change or leftover in a side; None if the stack went through its lifecycle
    without problems.
    """
    for name, _ in _VERBS:
        step = side.steps[name]
        if not step["ok"]:
            return f"{name}: {'; '.join(step['errors']) or 'failed'}"
        if name in ("unchanged up", "refresh") and step["changes"]:
            return f"{name}: expected no changes, got {step['changes']}"
    return f"destroy leaves {side.steps['left']}" if side.steps["left"] else None


def run_side(stack: LocalStack) -> Side | str:
    """Run one side. Return the results of one side, or the error if its steps could not be run."""
    try:
        return run_lifecycle(stack)
    except (ControlError, PulumiError) as error:
        return mask_variable_text(str(error))


def _cause_drift(stack: LocalStack) -> list[str]:
    """Change a VPC's tags and an object's label outside Pulumi. Return a description of the change."""
    changed = []
    for resource in stack.export_state()["deployment"].get("resources") or ():
        if resource["type"] == VPC:
            ec2 = stack.cloud.clients(stack.region)("ec2")
            ec2.create_tags(Resources=[resource["id"]], Tags=[{"Key": "drift", "Value": "1"}])
            changed.append("VPC tag")
    kubeconfig = stack.outputs(secrets=True).get("kubeconfig") if stack.cloud.has_kubernetes else None
    if kubeconfig:
        text = kubeconfig if isinstance(kubeconfig, str) else json.dumps(kubeconfig)
        file = stack.project / "drift.kubeconfig"
        file.touch(mode=0o600)
        file.write_text(text)
        kind, name, label = DRIFTED
        command = [str(stack.cloud.bin / "kubectl"), "--kubeconfig", str(file), "label", "--overwrite", kind, name, label]
        done = subprocess.run(command, env=os.environ | stack.cloud.environment(), capture_output=True, text=True, check=False)
        changed.append(f"{kind} label" if done.returncode == 0 else mask_variable_text(done.stderr.strip()))
    return changed
