"""`python -m bench.heal`: from a fault of a node under a running job to the job's next step on the spare node.

Each run submits a job of one worker, breaks the worker's node, and repairs it once the job has ended: with a reboot, or
with the end of the fault. All times count from the moment of the fault, except that of the node's return, which counts
from the reboot. Simulated: the GPU, and thus the fault itself.
"""

import argparse
import io
import json
import statistics
import sys
import threading
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from tenacity import Retrying, retry_if_not_result, stop_after_delay, wait_fixed

from bench.platform_cluster import machine, running, say
from bench.timed_job import LIMIT_SECONDS, Bench
from bench.watching import Object, Watch
from cli import local_break
from infra.health.faults import GPU_CONDITION, READY
from infra.health.xids import APPLICATION
from infra.naming import JOB_LABEL, ROLE_LABEL
from testkit.projects import client

STACK, POOL, IMAGE = "heal", "train", "openmpi:5"
REPEATS: Final = 5
PROGRAM: Final = """
import json, pathlib, sys, time
folder = pathlib.Path("/shared", sys.argv[1])
folder.mkdir(exist_ok=True)
saved, done = folder / "saved", folder / "done"
first = int(saved.read_text()) if saved.exists() else 0
again = done.exists()
for step in range(first + 1, first + 4 if again else 10**6):
    time.sleep(0.5)
    with done.open("a") as file:
        print(step, time.time(), file=file)
    print("step", step, flush=True)
    if step % 5 == 0:
        saved.write_text(str(step))
lines = [line.split() for line in done.read_text().splitlines()]
print("steps", json.dumps([[int(step), float(at)] for step, at in lines]), flush=True)
"""
"""Two steps per second; the fifth one is saved. After a restart, three steps."""
HARMLESS: Final = 24
"""Number of application errors that must not cost a node."""
STAGES: Final = ("reported", "cordoned", "ranks told to end", "next step")
BACK: Final = "in service again, from the reboot"
LOST: Final = "lost steps"
GOALS: Final = {"reported": 5.0, "cordoned": 5.5, "next step": 60.0}


@dataclass
class Seen:
    """When the broken node and the pods of the first attempt reached each stage."""

    node: str
    condition: str
    times: dict[str, float] = field(default_factory=dict)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def hear_node(self, kind: str, node: Object, now: float) -> None:
        if node["metadata"]["name"] != self.node:
            return
        broken = [one for one in node["status"]["conditions"] if one["type"] == self.condition and one["status"] != "True"]
        if broken or kind == "DELETED":
            self._reach("reported", now)
        if node["spec"].get("unschedulable"):
            self._reach("cordoned", now)
        elif "cordoned" in self.times and not broken:
            self._reach(BACK, now)

    def hear_pod(self, kind: str, pod: Object, now: float) -> None:
        if pod["spec"].get("nodeName") == self.node and (kind == "DELETED" or pod["metadata"].get("deletionTimestamp")):
            self._reach("ranks told to end", now)

    def wait(self, stage: str) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: stage in self.times, LIMIT_SECONDS)

    def _reach(self, stage: str, now: float) -> None:
        with self._changed:
            self.times.setdefault(stage, now)
            self._changed.notify_all()


Do = Callable[[Bench, str], None]


@dataclass(frozen=True)
class Fault:
    """A fault, and how its node is repaired."""

    title: str
    condition: str
    break_it: Do
    repair: Do


def _break(**options: Any) -> Do:
    def act(bench: Bench, node: str) -> None:
        with redirect_stdout(io.StringIO()):
            local_break.command(node, home=bench.shell.cloud.folder, as_json=True, **options)

    return act


def _reboot(bench: Bench, node: str) -> None:
    (found,) = [one for one in bench.client.list("Node") if one["metadata"]["name"] == node]
    instance = found["spec"]["providerID"].rpartition("/")[2]
    client(bench.shell.cloud, "ec2").reboot_instances(InstanceIds=[instance])


def _nothing(bench: Bench, node: str) -> None:
    """Auto Scaling replaces the instance."""


# Without its kubelet, a node goes on running its containers: the job does not restart, so there is nothing to measure.
FAULTS: Final = {
    "xid": Fault("a GPU falls off the bus (Xid 79)", GPU_CONDITION, _break(xid=79), _reboot),
    "ecc": Fault("a GPU has a double-bit error (Xid 48)", GPU_CONDITION, _break(ecc=True), _reboot),
    "link": Fault("the network link fails", READY, _break(link=True), _break(restore=True)),
    "instance": Fault("the instance is terminated", READY, _break(instance=True), _nothing),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--fault", choices=FAULTS, action="append", help="default: all")
    parser.add_argument("--results", type=Path, help="file to which each run is added; runs that it has are not repeated")
    parser.add_argument("--cloud", type=Path, help="local cloud in which the stack is already running; it is left running")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    found: dict[str, list[dict[str, float]]] = _read(arguments.results)
    about = machine()
    with running(STACK, arguments.cloud) as shell:
        bench = Bench.of(shell)
        for name in arguments.fault or FAULTS:
            while len(found.setdefault(name, [])) < arguments.repeats:
                found[name].append(one_run(bench, FAULTS[name]))
                say(f"{name}, {len(found[name])} of {arguments.repeats}: {found[name][-1]}")
                if arguments.results:
                    arguments.results.write_text(json.dumps(found, indent=1) + "\n")
        harmless = _harmless(bench)
    if arguments.json:
        print(json.dumps({**about, "runs": found, "cordons after harmless events": harmless}, indent=1))
        return
    _show(found, harmless)


def _read(file: Path | None) -> dict[str, list[dict[str, float]]]:
    found: dict[str, list[dict[str, float]]] = json.loads(file.read_text()) if file and file.exists() else {}
    return found


def one_run(bench: Bench, fault: Fault) -> dict[str, float]:
    """Break the node of a running job; return the seconds until each stage, and the number of steps that were done twice."""
    name = "bench-heal"
    _await_nodes(bench, 2)
    bench.submit(_job(name, f"heal-{time.time_ns()}"), bench.described)
    try:
        node = _await_step(bench, name)
        seen = Seen(node, fault.condition)
        pods = f"/api/v1/namespaces/{bench.namespace}/pods"
        with (
            Watch(bench.shell.kubeconfig, "/api/v1/nodes", seen.hear_node),
            Watch(bench.shell.kubeconfig, pods, seen.hear_pod, f"{JOB_LABEL}={name},{ROLE_LABEL}=worker"),
        ):
            broken = time.time()
            fault.break_it(bench, node)
            steps = _await_end(bench, name)
            repaired = time.time()
            fault.repair(bench, node)
            if fault.condition == GPU_CONDITION and not seen.wait(BACK):
                sys.exit(f"{node} did not return to service")
    finally:
        bench.remove(name)
    resumed = next(index for index in range(1, len(steps)) if steps[index][0] <= steps[index - 1][0])
    times = {**seen.times, "next step": steps[resumed][1]}
    found: dict[str, float] = {stage: round(times[stage] - broken, 2) for stage in STAGES if stage in times}
    if BACK in seen.times:
        found[BACK] = round(seen.times[BACK] - repaired, 2)
    return {**found, LOST: steps[resumed - 1][0] - steps[resumed][0] + 1}


def _await_nodes(bench: Bench, number: int) -> None:
    """Wait until this many nodes of the pool offer their GPU to jobs."""

    def ready() -> bool:
        nodes = [one for one in bench.client.list("Node") if one["metadata"]["labels"].get("gpumpi.io/pool") == POOL]
        return sum(_takes_jobs(one) for one in nodes) >= number

    _wait_for(ready)


def _takes_jobs(node: Object) -> bool:
    is_ready = any((one["type"], one["status"]) == (READY, "True") for one in node["status"]["conditions"])
    has_gpu = node["status"].get("allocatable", {}).get("nvidia.com/gpu") == "1"
    return is_ready and has_gpu and not node["spec"].get("unschedulable") and not node["spec"].get("taints", [])[1:]


def _await_step(bench: Bench, name: str) -> str:
    """Wait until the job has done seven steps and saved five; return the worker's node."""

    def has_begun() -> bool:
        return "step 7" in bench.shell.cluster("logs", name).out.splitlines()

    _wait_for(has_begun)
    (worker,) = bench.client.list("Pod", bench.namespace, {JOB_LABEL: name, ROLE_LABEL: "worker"})
    return str(worker["spec"]["nodeName"])


def _await_end(bench: Bench, name: str) -> list[list[float]]:
    """Wait until the job has succeeded; return its steps and their times."""

    def is_over() -> bool:
        return bench.shell.phase(name) in ("Succeeded", "Failed")

    _wait_for(is_over)
    found: list[list[float]] = bench.printed(name, "steps")
    return found


def _wait_for(reached: Callable[[], bool]) -> None:
    Retrying(retry=retry_if_not_result(bool), wait=wait_fixed(0.5), stop=stop_after_delay(LIMIT_SECONDS))(reached)


def _harmless(bench: Bench) -> int:
    """Report application errors on a node; return how many nodes were cordoned."""
    _await_nodes(bench, 2)
    node = next(one["metadata"]["name"] for one in bench.client.list("Node") if one["metadata"]["labels"].get("gpumpi.io/pool"))
    harmless = sorted(APPLICATION)
    for index in range(HARMLESS):
        _break(xid=harmless[index % len(harmless)])(bench, node)
    time.sleep(10)
    return sum(bool(one["spec"].get("unschedulable")) for one in bench.client.list("Node"))


def _job(name: str, folder: str) -> dict[str, object]:
    command = ["python3", "-u", "-c", PROGRAM, folder]
    return {"name": name, "pool": POOL, "workers": 1, "image": IMAGE, "command": command, "maxRestarts": 0}


def _show(found: dict[str, list[dict[str, float]]], harmless: int) -> None:
    for name, runs in found.items():
        table = Table("until", "seconds, median", "lowest to highest", "goal", title=f"{FAULTS[name].title}, {len(runs)} runs")
        for stage in (*STAGES, BACK, LOST):
            values = [run[stage] for run in runs if stage in run]
            if values:
                spread = f"{min(values):.1f} to {max(values):.1f}"
                table.add_row(stage, f"{statistics.median(values):.1f}", spread, str(GOALS.get(stage, "")))
        Console().print(table)
    print(f"nodes cordoned after {HARMLESS} application errors: {harmless}")


if __name__ == "__main__":
    main()
