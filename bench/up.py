"""`python -m bench.up`: duration of a cluster's lifecycle on a fresh local cloud, compared with AWS's critical path."""

import argparse
import json
import platform
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

from bench.chain import compute_control_plane_creation_seconds, compute_minimum_creation_seconds
from localcloud.engine_events import Step
from localcloud.instance import LocalCloud
from localcloud.stack import LocalStack, Run, Verb

STACKS = ("local", "02-p4d-efa")
DELAY_FACTOR = 0.1
"""One minute of AWS time takes six seconds: long compared with the engine's own time, but short enough to wait for."""
console = Console()


@dataclass(frozen=True)
class Measured:
    """Result of a Pulumi operation, with the number of AWS calls it made."""

    name: str
    run: Run
    reads: int
    writes: int

    def as_row(self) -> dict[str, Any]:
        return {
            "run": self.name,
            "resources": sum(self.run.changes.values()),
            "changes": self.run.changed,
            "seconds": round(self.run.seconds, 1),
            "awsReads": self.reads,
            "awsWrites": self.writes,
        }


def measure_operation(cloud: LocalCloud, stack: LocalStack, name: str, verb: Verb) -> Measured:
    control = cloud.control()
    control.reset_call_counts()
    run = stack.run(verb)
    if not run.ok:
        sys.exit(f"pulumi {verb} of {stack.name} failed:\n{run.output}")
    calls = control.calls()
    return Measured(name, run, calls["reads"], calls["writes"])


def measure_lifecycle(name: str) -> tuple[list[Measured], list[Step]]:
    """Measure a cold `preview`, an `up`, an `up` without changes, and a `destroy`, all without AWS's delays."""
    with tempfile.TemporaryDirectory() as folder:
        cloud = LocalCloud(Path(folder) / "cloud")
        try:
            stack = _create_local_stack(cloud, name)
            runs = [
                measure_operation(cloud, stack, "preview, cold", "preview"),
                measure_operation(cloud, stack, "up", "up"),
                measure_operation(cloud, stack, "up, unchanged", "up"),
                measure_operation(cloud, stack, "destroy", "destroy"),
            ]
        finally:
            cloud.stop()
    aws_steps = [step for step in runs[1].run.steps if step.type.startswith("aws:")]
    return runs, sorted(aws_steps, key=lambda step: -step.seconds)[:10]


def measure_with_delays(name: str, factor: float, own_seconds: float) -> dict[str, Any]:
    """Measure `up` with AWS's delays and compare it with the critical path.

    `own_seconds` is the duration of `up` without delays. If the factor is small, this time has more weight than on
    AWS, so the result contains the ratio to the critical path both with and without this time.
    """
    with tempfile.TemporaryDirectory() as folder:
        cloud = LocalCloud(Path(folder) / "cloud")
        try:
            stack = _create_local_stack(cloud, name, delay_factor=factor)
            up = measure_operation(cloud, stack, "up", "up")
        finally:
            cloud.stop()
    seconds = up.run.seconds
    return {
        "factor": factor,
        "seconds": round(seconds, 1),
        "awsSeconds": round(seconds / factor),
        "necessaryAwsSeconds": round(compute_minimum_creation_seconds()),
        "ratio": round(seconds / (compute_minimum_creation_seconds() * factor), 2),
        "ratioWithoutOwnSeconds": round((seconds - own_seconds) / (compute_minimum_creation_seconds() * factor), 2),
        "addedToControlPlaneAwsSeconds": round(seconds / factor - compute_control_plane_creation_seconds()),
        "last": [_step_as_row(step) for step in sorted(up.run.steps, key=lambda step: -step.ended)[:5]],
    }


def _create_local_stack(cloud: LocalCloud, name: str, *, delay_factor: float = 0.0) -> LocalStack:
    cloud.start(lambda line: print(line, file=sys.stderr), delay_factor=delay_factor)
    stack = LocalStack(cloud, name)
    stack.prepare()
    return stack


def _step_as_row(step: Step) -> dict[str, Any]:
    return {"type": step.type, "name": step.name, "operation": step.operation, "seconds": round(step.seconds, 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--delay-factor", type=float, default=DELAY_FACTOR)
    arguments = parser.parse_args()
    machine = f"{psutil.cpu_count()} cores, {psutil.virtual_memory().total / 2**30:.0f} GiB, Python {platform.python_version()}"
    results: dict[str, Any] = {"machine": machine}
    for name in STACKS:
        runs, slowest = measure_lifecycle(name)
        delays = measure_with_delays(name, arguments.delay_factor, runs[1].run.seconds)
        results[name] = {"runs": [run.as_row() for run in runs], "slowest": [_step_as_row(s) for s in slowest], "delays": delays}
        if not arguments.json:
            _print_tables(name, results[name])
    if arguments.json:
        print(json.dumps(results, indent=1))


def _print_tables(name: str, result: dict[str, Any]) -> None:
    table = Table("run", "resources", "seconds", "AWS reads", "AWS writes", title=name)
    for row in result["runs"]:
        table.add_row(row["run"], str(row["resources"]), str(row["seconds"]), str(row["awsReads"]), str(row["awsWrites"]))
    console.print(table)
    slowest = Table("seconds", "type", "name", title=f"{name}: the ten slowest resources to create")
    for step in result["slowest"]:
        slowest.add_row(str(step["seconds"]), step["type"], step["name"])
    console.print(slowest)
    delays = result["delays"]
    console.print(
        f"{name} with AWS's delays multiplied by {delays['factor']}: "
        f"up took {delays['seconds']} s = {delays['awsSeconds']} s of AWS time; "
        f"the critical path takes {delays['necessaryAwsSeconds']} s (ratio {delays['ratio']}, "
        f"{delays['ratioWithoutOwnSeconds']} without the engine's own time); "
        f"{delays['addedToControlPlaneAwsSeconds']} s more than the control plane alone"
    )


if __name__ == "__main__":
    main()
