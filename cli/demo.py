"""`scripts/cluster demo`: the whole life of a cluster on a local AWS, with what each step must achieve checked."""

import json
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import boto3
import psutil
from rich.console import Console
from rich.table import Table

from localcloud.instance import LocalCloud
from localcloud.processes import ROOT
from localcloud.stack import LocalStack, Run, Verb

STACK = "local"
RESULT = ROOT / ".local" / "demo.json"
LOG = ROOT / ".local" / "demo.log"
NEW_MAX_SIZE = 6

console = Console(highlight=False)


class StepFailed(Exception):
    """The step ran but did not do what it should."""


@dataclass
class StepResult:
    """One line of the closing table and of demo.json."""

    step: str
    seconds: float = 0.0
    ok: bool = False
    skipped: bool = False
    detail: str = ""


@dataclass
class Demo:
    """The steps in order. A step after a failed one is skipped, except those that clean up."""

    cloud: LocalCloud
    stack: LocalStack
    verbose: bool = False
    results: list[StepResult] = field(default_factory=list)

    def run(self) -> bool:
        """Run all steps; true when every step attempted did what it should."""
        self._step("start the local cloud", self.start)
        self._step("preview", self.preview)
        self._step("create", self.create)
        self._step("run again without change", self.unchanged)
        self._step("resize", self.resize)
        self._step("refresh after a change by hand", self.refresh)
        self._step("put it right", self.repair)
        self._step("destroy", self.destroy)
        self._step("look for leftovers", self.leftovers)
        self._step("stop the local cloud", self.stop, always=True)
        return all(result.ok or result.skipped for result in self.results) and not all(result.skipped for result in self.results)

    def start(self) -> str:
        self.cloud.stop()  # what an interrupted demo left
        self.cloud.start(lambda line: console.print(f"  {line}", style="dim", markup=False))
        self.stack.prepare()
        return "AWS, Pulumi's language host and the AWS provider, on loopback"

    def preview(self) -> str:
        run = self._pulumi("preview")
        return f"{run.changes.get('create', 0)} resources to create"

    def create(self) -> str:
        run = self._pulumi("up")
        outputs = self.stack.outputs()
        pools = ", ".join(f"{pool['name']}: {pool['instanceType']}" for pool in outputs["pools"])
        return f"{run.changes.get('create', 0)} resources; cluster {outputs['clusterName']} with {pools}"

    def unchanged(self) -> str:
        control = self.cloud.control()
        control.forget_calls()
        run = self._pulumi("up")
        writes = control.writes()
        _must(not run.changed, f"nothing should change, but: {run.changed}")
        _must(not writes, f"an unchanged up must not write to AWS, but called {writes}")
        return f"{run.changes.get('same', 0)} resources unchanged, no AWS write call"

    def resize(self) -> str:
        self.stack.set_config("gpumpi:pools[0].maxSize", str(NEW_MAX_SIZE))
        run = self._pulumi("up")
        replaced = [name for name in run.changed if name not in ("update",)]
        _must(not replaced, f"a resize must only update, but: {run.changed}")
        size = self._node_group()["scalingConfig"]["maxSize"]
        _must(size == NEW_MAX_SIZE, f"EKS says maxSize {size}, wanted {NEW_MAX_SIZE}")
        return f"pools[0].maxSize is {NEW_MAX_SIZE} now; nothing was replaced"

    def refresh(self) -> str:
        group = self._node_group()
        scaling = group["scalingConfig"] | {"maxSize": NEW_MAX_SIZE + 3}
        self._eks().update_nodegroup_config(
            clusterName=group["clusterName"], nodegroupName=group["nodegroupName"], scalingConfig=scaling
        )
        run = self._pulumi("refresh")
        _must(bool(run.changed), "the refresh did not notice the change")
        return f"somebody set maxSize {NEW_MAX_SIZE + 3} in the console; the refresh noticed"

    def repair(self) -> str:
        self._pulumi("up")
        size = self._node_group()["scalingConfig"]["maxSize"]
        _must(size == NEW_MAX_SIZE, f"EKS says maxSize {size}, wanted {NEW_MAX_SIZE}")
        return f"the next up set maxSize {NEW_MAX_SIZE} again"

    def destroy(self) -> str:
        run = self._pulumi("destroy")
        self.stack.remove()
        return f"{run.changes.get('delete', 0)} resources deleted"

    def leftovers(self) -> str:
        left = self.cloud.control().leftovers()
        _must(not left, f"AWS still holds: {left}")
        return "the account holds what it held before"

    def stop(self) -> str:
        servers = self.cloud.servers()
        self.cloud.stop()
        alive = [server.name for server in servers if psutil.pid_exists(server.pid) and server.process()]
        _must(not alive, f"still running: {alive}")
        return "no process and no file left"

    def _step(self, title: str, action: Callable[[], str], *, always: bool = False) -> None:
        result = StepResult(title)
        self.results.append(result)
        if not always and any(not earlier.ok for earlier in self.results[:-1]):
            result.skipped, result.detail = True, "an earlier step failed"
            return
        console.print(f"[bold]{title}[/]")
        started = time.monotonic()
        try:
            result.detail = action()
            result.ok = True
        except Exception as error:  # the table must name whatever went wrong, and the cloud must still be stopped
            result.detail = f"{error}"
        result.seconds = round(time.monotonic() - started, 1)
        mark = "[green]✓[/]" if result.ok else "[red]✗[/]"
        console.print(f"  {mark} {result.seconds} s  ", end="")
        console.print(result.detail, markup=False)

    def _pulumi(self, verb: Verb) -> Run:
        """One engine run; its output goes to the log, and to the terminal when asked or when it failed."""
        waiting = nullcontext() if self.verbose or not console.is_terminal else console.status(f"pulumi {verb}")
        with waiting:
            run = self.stack.run(verb, stream=sys.stdout if self.verbose else None)
        with LOG.open("a") as log:
            log.write(f"$ pulumi {verb} -s {self.stack.name}\n{run.output}\n")
        if not run.ok:
            console.print(run.output, markup=False)
            raise StepFailed(f"pulumi {verb} ended with exit code {run.exit_code}")
        return run

    def _eks(self) -> Any:
        region = self.stack.outputs()["region"]
        return boto3.client(
            "eks",
            region_name=region,
            endpoint_url=self.cloud.server("aws").url,
            aws_access_key_id=self.cloud.environment()["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=self.cloud.environment()["AWS_SECRET_ACCESS_KEY"],
        )

    def _node_group(self) -> dict[str, Any]:
        """The first GPU pool's node group, as EKS describes it."""
        outputs = self.stack.outputs()
        pool = outputs["pools"][0]
        description: dict[str, Any] = self._eks().describe_nodegroup(
            clusterName=outputs["clusterName"], nodegroupName=pool["nodeGroup"]
        )["nodegroup"]
        return description


def _must(condition: bool, reason: str) -> None:
    if not condition:
        raise StepFailed(reason)


def main(*, verbose: bool = False, as_json: bool = False) -> int:
    """Run the demo, print the closing table, write .local/demo.json; 0 only if every step attempted did what it should."""
    global console
    if as_json:
        console = Console(highlight=False, stderr=True)
    RESULT.parent.mkdir(exist_ok=True)
    LOG.unlink(missing_ok=True)
    cloud = LocalCloud(ROOT / ".local" / "demo")
    demo = Demo(cloud, LocalStack(cloud, STACK), verbose)
    started = time.monotonic()
    try:
        ok = demo.run()
    except KeyboardInterrupt:
        cloud.stop()
        raise
    RESULT.write_text(json.dumps([asdict(result) for result in demo.results], indent=2) + "\n")
    console.print(_table(demo.results, time.monotonic() - started))
    console.print(f"the engine's own output: {_shown(LOG)}; this table as JSON: {_shown(RESULT)}", style="dim")
    if as_json:
        print(RESULT.read_text(), end="")
    return 0 if ok else 1


def _table(results: list[StepResult], seconds: float) -> Table:
    table = Table("step", "result", "seconds", "what happened", caption=f"{seconds:.0f} s in all")
    for result in results:
        mark = "[yellow]skipped[/]" if result.skipped else "[green]ok[/]" if result.ok else "[red]failed[/]"
        table.add_row(result.step, mark, f"{result.seconds:.1f}", result.detail)
    return table


def _shown(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
