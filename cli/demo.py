"""`scripts/cluster demo`: the whole life of a cluster on a local AWS, with what each step must achieve checked."""

import fcntl
import json
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from cli import progress
from infra.naming import GPU_RESOURCE
from localcloud.instance import LocalCloud
from localcloud.kubernetes import capability
from localcloud.processes import ROOT
from localcloud.stack import LocalStack, Run, Verb

STACK = "local"
FOLDER = ROOT / ".local"
"""Git ignores it."""
JOB_POOL = "efa"
NEW_MAX_SIZE = 6
BY_HAND = 9


class StepFailed(Exception):
    """The step ran but did not do what it should."""


class StepSkipped(Exception):
    """This machine cannot do it; the text says why."""


class AlreadyRunning(Exception):
    """Two demos in one folder would take each other's servers away."""


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
    """The steps in order. A step after a failed one is skipped, except the one that cleans up."""

    cloud: LocalCloud
    stack: LocalStack
    log: Path
    console: Console
    verbose: bool = False
    results: list[StepResult] = field(default_factory=list)

    def run(self) -> bool:
        """Run all steps; true when every step did what it should."""
        self._step("start the local cloud", self.start)
        self._step("preview", self.preview)
        self._step("create", self.create)
        self._step("see its nodes", self.nodes)
        self._step("run an MPI job", self.run_job)
        self._step("run again", self.unchanged)
        self._step("resize", self.resize)
        self._step("refresh", self.refresh)
        self._step("put it right", self.repair)
        self._step("destroy", self.destroy)
        self._step("look for leftovers", self.leftovers)
        self._step("stop the local cloud", self.stop, always=True)
        return all(result.ok for result in self.results)

    def start(self) -> str:
        self.cloud.stop()  # what an interrupted demo left
        self.cloud.start(lambda line: self.console.print(f"  {line}", style="dim", markup=False), kubernetes=True)
        self.stack.prepare()
        return f"AWS and Pulumi's providers on loopback; {capability.examine()}"

    def preview(self) -> str:
        run = self._pulumi("preview")
        _must(not self.cloud.control().leftovers(), "a preview must make nothing")
        return f"{run.changes.get('create', 0)} resources to create"

    def create(self) -> str:
        run = self._pulumi("up")
        outputs = self.stack.outputs()
        pools = ", ".join(f"{pool['desiredSize']} x {pool['instanceType']}" for pool in outputs["pools"])
        return f"{run.changes.get('create', 0)} resources: {outputs['clusterName']} with {pools}"

    def nodes(self) -> str:
        """Of whom the stack says that they are there, the GPU nodes with the GPUs that the device plugin offers."""
        wanted = sum(pool["desiredSize"] for pool in self.stack.outputs()["pools"])
        self.kubeconfig.write_text(self.stack.outputs(secrets=True)["kubeconfig"])
        self.kubeconfig.chmod(0o600)
        nodes = json.loads(self._in_cluster("kubectl", "get", "nodes", "--output", "json"))["items"]
        ready = [node for node in nodes if _is_ready(node)]
        with_gpus = [node for node in ready if int(node["status"]["allocatable"].get(GPU_RESOURCE, 0))]
        _must(len(ready) == len(nodes), f"{len(nodes) - len(ready)} of {len(nodes)} nodes are not ready")
        _must(len(with_gpus) == wanted, f"{len(with_gpus)} nodes offer GPUs, wanted {wanted}")
        return f"{len(ready)} ready, {len(with_gpus)} of them with GPUs: {', '.join(sorted(map(_name, with_gpus)))}"

    def run_job(self) -> str:
        """Ranks over SSH on two nodes; the job itself fails unless each ran where it should."""
        if not (machine := capability.examine()).real_nodes:
            raise StepSkipped(f"no node here runs containers: {'; '.join(machine.missing)}")
        command = [sys.executable, str(ROOT / "scripts" / "cluster"), "smoke", "--pool", JOB_POOL, "--workers", "2", "--json"]
        verdict = json.loads(self._in_cluster(*command))
        reports = sorted(verdict["reports"], key=lambda report: int(report["rank"]))
        where = ", ".join(f"rank {report['rank']} on {report['node'].split('.')[0]}" for report in reports)
        return f"{where}; their sum {reports[0]['sum']} is right, by {verdict['expected']['transport']}"

    def unchanged(self) -> str:
        control = self.cloud.control()
        control.forget_calls()
        run = self._pulumi("up")
        writes = control.writes()
        _must(not run.changed, f"nothing should change, but: {run.changed}")
        _must(not writes, f"an unchanged up must not write to AWS, but called {writes}")
        return f"{run.changes.get('same', 0)} resources unchanged, no AWS write"

    def resize(self) -> str:
        self.stack.set_config("gpumpi:pools[0].maxSize", str(NEW_MAX_SIZE))
        run = self._pulumi("up")
        _must(set(run.changed) == {"update"}, f"a resize must update and nothing else, but: {run.changed}")
        self._must_have_max_size(NEW_MAX_SIZE)
        return f"maxSize is {NEW_MAX_SIZE} now, updated in place"

    def refresh(self) -> str:
        group = self._node_group()
        self._eks().update_nodegroup_config(
            clusterName=group["clusterName"],
            nodegroupName=group["nodegroupName"],
            scalingConfig=group["scalingConfig"] | {"maxSize": BY_HAND},
        )
        run = self._pulumi("refresh")
        _must(bool(run.changed), "the refresh did not notice the change")
        return f"noticed maxSize {BY_HAND}, set by hand"

    def repair(self) -> str:
        self._pulumi("up")
        self._must_have_max_size(NEW_MAX_SIZE)
        return f"maxSize is {NEW_MAX_SIZE} again"

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
        alive = [server.name for server in servers if server.process()]
        _must(not alive, f"still running: {alive}")
        _must(not self.cloud.folder.exists(), f"{self.cloud.folder} is not empty")
        return "no process and no file left"

    def _step(self, title: str, action: Callable[[], str], *, always: bool = False) -> None:
        result = StepResult(title)
        self.results.append(result)
        if not always and any(not earlier.ok for earlier in self.results[:-1]):
            result.skipped, result.detail = True, "an earlier step failed"
            return
        self.console.print(f"[bold]{title}[/]")
        started = time.monotonic()
        try:
            result.detail = action()
            result.ok = True
        except StepSkipped as reason:
            result.ok = result.skipped = True
            result.detail = str(reason)
        except Exception as error:  # the table must name whatever went wrong, and the cloud must still be stopped
            result.detail = str(error) if isinstance(error, StepFailed) else f"{type(error).__name__}: {error}"
        result.seconds = round(time.monotonic() - started, 1)
        self.console.print(f"  {_mark(result)} {result.seconds} s  ", end="")
        self.console.print(result.detail, markup=False, soft_wrap=True)

    def _pulumi(self, verb: Verb) -> Run:
        """One engine run; its output goes to the log, and to the terminal when asked or when it failed."""
        with nullcontext() if self.verbose else progress.shown(self.console, verb) as watch:
            run = self.stack.run(verb, stream=self.console.file if self.verbose else None, watch=watch)  # type: ignore[arg-type]
        with self.log.open("a") as log:
            log.write(f"$ pulumi {verb} -s {self.stack.name}\n{run.output}\n")
        if not run.ok:
            if not self.verbose:
                self.console.print(run.output, markup=False, soft_wrap=True)
            raise StepFailed("; ".join(run.errors) or f"pulumi {verb} ended with exit code {run.exit_code}")
        return run

    @property
    def kubeconfig(self) -> Path:
        return self.cloud.folder / "project" / "kubeconfig.json"

    def _in_cluster(self, *command: str) -> str:
        """What a program prints that reaches the cluster as its user does. Raises StepFailed."""
        variables = self.cloud.process_environment() | {"KUBECONFIG": str(self.kubeconfig)}
        done = subprocess.run(command, env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        with self.log.open("a") as log:
            log.write(f"$ {shlex.join(command)}\n{done.stdout}{done.stderr}\n")
        if done.returncode:
            raise StepFailed(_last_words(done.stderr) or _last_words(done.stdout) or f"ended with exit code {done.returncode}")
        return done.stdout

    def _eks(self) -> Any:
        return self.cloud.clients(self.stack.region)("eks")

    def _node_group(self) -> dict[str, Any]:
        """The first GPU pool's node group, as EKS describes it."""
        outputs = self.stack.outputs()
        name = {"clusterName": outputs["clusterName"], "nodegroupName": outputs["pools"][0]["nodeGroup"]}
        group: dict[str, Any] = self._eks().describe_nodegroup(**name)["nodegroup"]
        return group

    def _must_have_max_size(self, wanted: int) -> None:
        size = self._node_group()["scalingConfig"]["maxSize"]
        _must(size == wanted, f"EKS says maxSize {size}, wanted {wanted}")


def _mark(result: StepResult) -> str:
    return "[yellow]skipped[/]" if result.skipped else "[green]ok[/]" if result.ok else "[red]failed[/]"


def _name(node: dict[str, Any]) -> str:
    return str(node["metadata"]["name"]).split(".")[0]


def _is_ready(node: dict[str, Any]) -> bool:
    return any(one["type"] == "Ready" and one["status"] == "True" for one in node["status"]["conditions"])


def _last_words(text: str) -> str:
    return "; ".join(text.strip().splitlines()[-3:])


def _must(condition: bool, reason: str) -> None:
    if not condition:
        raise StepFailed(reason)


def main(*, verbose: bool = False, as_json: bool = False, folder: Path = FOLDER) -> int:
    """Run the demo, print the closing table, write demo.json; 0 only if every step did what it should."""
    console = Console(highlight=False, stderr=as_json)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the local cloud is stopped, as by ^C
    try:
        with _only_one(folder):
            return _run(console, folder, verbose=verbose, as_json=as_json)
    except AlreadyRunning as error:
        console.print(str(error), style="red", markup=False, soft_wrap=True)
        return 1


def _run(console: Console, folder: Path, *, verbose: bool, as_json: bool) -> int:
    table, log = folder / "demo.json", folder / "demo.log"
    log.unlink(missing_ok=True)
    table.unlink(missing_ok=True)
    cloud = LocalCloud(folder / "demo")
    demo = Demo(cloud, LocalStack(cloud, STACK), log, console, verbose)
    console.print("The life of a GPU cluster on a local AWS, by the real Pulumi engine. No account, no cost.", soft_wrap=True)
    started = time.monotonic()
    try:
        ok = demo.run()
    except KeyboardInterrupt:
        console.print("interrupted; stopping the local cloud")
        cloud.stop()
        raise
    table.write_text(json.dumps([asdict(result) for result in demo.results], indent=2) + "\n")
    console.print()
    console.print(_table(demo.results, time.monotonic() - started))
    console.print()
    console.print(f"Pulumi's own output: {_shown(log)}; this table: {_shown(table)}", style="dim", soft_wrap=True)
    if ok:
        console.print(
            "next: scripts/cluster local start, then scripts/cluster local up -s 02-p4d-efa", style="dim", soft_wrap=True
        )
    if as_json:
        print(table.read_text(), end="")
    return 0 if ok else 1


@contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "demo.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AlreadyRunning(f"a demo runs already in {folder}") from None
        yield


def _table(results: list[StepResult], seconds: float) -> Table:
    table = Table(
        "step",
        "result",
        Column("seconds", justify="right"),
        "what happened",
        box=None,
        header_style="bold",
        pad_edge=False,
        padding=(0, 2, 0, 0),
    )
    for result in results:
        table.add_row(result.step, _mark(result), f"{result.seconds:.1f}", escape(result.detail))
    table.add_row("in all", "", f"{seconds:.1f}", "", style="bold")
    return table


def _shown(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
