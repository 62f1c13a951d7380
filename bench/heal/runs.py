"""Run a measurement: submit a job, cause a fault, and time each stage until the job's next step."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from bench.heal.faults import JOB, LOST, NEXT, STAGES, WITHIN_SECONDS, Fault, inject_fault
from bench.heal.seen import BACK, CORDONED, Seen
from bench.timed_job import LIMIT_SECONDS, Bench
from bench.watching import Object, Watch, has_true_condition
from infra.health import journal
from infra.health.faults import GPU_CONDITION, READY
from infra.health.xids import APPLICATION
from infra.naming import GPU_RESOURCE, JOB_LABEL, PLATFORM_NAMESPACE, POOL_LABEL, ROLE_LABEL
from infra.platform.job_controller.component import NAME as CONTROLLER
from testkit.waiting import wait_until

POOL, IMAGE = "train", "openmpi:5"
NODES: Final = 2
HARMLESS: Final = 24
"""Number of application errors (Xids) to simulate. None of them may cause the controller to cordon the node."""
BRAKE_SECONDS: Final = 15
"""How long to wait for a node to be cordoned: fifteen times the controller's polling interval."""
PROGRAM: Final = """
import json, os, pathlib, sys, time
folder = pathlib.Path("/shared", sys.argv[1])
folder.mkdir(exist_ok=True)
saved, done, over = folder / "saved", folder / "done", folder / "over"
while os.environ["OMPI_COMM_WORLD_RANK"] != "0" and not over.exists():
    time.sleep(0.2)
first = int(saved.read_text()) if saved.exists() else 0
again = done.exists()
for step in () if over.exists() else range(first + 1, first + 4 if again else 10**6):
    time.sleep(0.5)
    with done.open("a") as file:
        print(first, step, time.time(), file=file)
    print("step", step, flush=True)
    if step % 5 == 0:
        saved.write_text(str(step))
if not over.exists():
    lines = [json.loads("[" + line.replace(" ", ",") + "]") for line in done.read_text().splitlines()]
    print("steps", json.dumps(lines), flush=True)
    over.touch()
"""
"""Rank 0 completes two steps per second and saves a checkpoint every five steps. After a restart, it completes three
steps and ends.
"""


def measure_run(bench: Bench, fault: Fault) -> dict[str, float]:
    """Return the seconds from the fault to each stage, and the number of repeated steps.

    The time until the node is back in service counts from the repair.
    """
    _wait_for_gpu_nodes(bench)  # must come first, because the controller also counts nodes that are still out of service
    _reset_journal(bench)
    bench.submit(_build_job(fault), bench.described)
    try:
        node = _wait_for_checkpoint(bench)
        with _watch_job(bench, node, fault) as observed:
            begun = time.time()
            fault.break_it(bench, node)
            steps = _wait_for_job_end(bench)
            repaired = time.time()
            if fault.repair:
                fault.repair(bench, node)
            if fault.condition == GPU_CONDITION and not observed.wait(BACK):
                sys.exit(f"{node} did not return to service")
    finally:
        bench.remove(JOB)
    resumed = next(index for index, (first, _, _) in enumerate(steps) if first > steps[0][0])
    times = {stage: at - (repaired if stage == BACK else begun) for stage, at in observed.times.items()}
    times[NEXT] = steps[resumed][2] - begun
    seconds = {stage: round(times[stage], 2) for stage in STAGES if stage in times}
    return {**seconds, LOST: steps[resumed - 1][1] - steps[resumed][1] + 1}


def count_cordons_after_app_errors(bench: Bench) -> int:
    """Simulate application errors on a node; return the number of cordoned nodes (0 or 1)."""
    _wait_for_gpu_nodes(bench)
    node = _list_schedulable_gpu_nodes(bench)[0]
    errors = sorted(APPLICATION)
    with _watch_nodes(bench, [node], GPU_CONDITION) as observed:
        for index in range(HARMLESS):
            inject_fault(node, bench, xid=errors[index % len(errors)])
        return int(observed.wait(CORDONED, BRAKE_SECONDS))


def measure_cordon_limit(bench: Bench) -> list[bool]:
    """Break both nodes, one after the other; return whether each was cordoned. The controller may cordon only one."""
    _wait_for_gpu_nodes(bench)
    _reset_journal(bench)
    cordoned = []
    for node in _list_schedulable_gpu_nodes(bench):
        with _watch_nodes(bench, [node], GPU_CONDITION) as observed:
            inject_fault(node, bench, xid=79)
            cordoned.append(observed.wait(CORDONED, BRAKE_SECONDS))
    return cordoned


@contextmanager
def _watch_job(bench: Bench, node: str, fault: Fault) -> Iterator[Seen]:
    workers = bench.client.list("Pod", bench.namespace, {JOB_LABEL: JOB, ROLE_LABEL: "worker"})
    uids = frozenset(pod["metadata"]["uid"] for pod in workers)
    observed = Seen([] if fault.is_hang else [node], fault.condition, _list_nodes(bench), uids)
    base = f"/api/v1/namespaces/{bench.namespace}"
    with (
        Watch(bench.shell.kubeconfig, "/api/v1/nodes", observed.handle_node_event),
        Watch(bench.shell.kubeconfig, f"{base}/pods", observed.handle_pod_event, f"{JOB_LABEL}={JOB},{ROLE_LABEL}=worker"),
        Watch(bench.shell.kubeconfig, f"{base}/events", observed.handle_kubernetes_event),
    ):
        yield observed


@contextmanager
def _watch_nodes(bench: Bench, nodes: list[str], shown_by: str) -> Iterator[Seen]:
    observed = Seen(nodes, shown_by, _list_nodes(bench), ())
    with Watch(bench.shell.kubeconfig, "/api/v1/nodes", observed.handle_node_event):
        yield observed


def _reset_journal(bench: Bench) -> None:
    """Restart the controller with an empty journal. Otherwise, a broken node could stay in service, because earlier
    faults still count toward the limit in infra/health/brake.py.
    """
    if bench.client.find("ConfigMap", journal.CONFIG_MAP, PLATFORM_NAMESPACE):
        bench.client.delete("ConfigMap", journal.CONFIG_MAP, PLATFORM_NAMESPACE)
    for pod in bench.client.list("Pod", PLATFORM_NAMESPACE, {"app": CONTROLLER}):
        bench.client.delete("Pod", pod["metadata"]["name"], PLATFORM_NAMESPACE)


def _list_nodes(bench: Bench) -> list[str]:
    return [node["metadata"]["name"] for node in bench.client.list("Node")]


def _list_schedulable_gpu_nodes(bench: Bench) -> list[str]:
    return [node["metadata"]["name"] for node in bench.client.list("Node") if _accepts_gpu_jobs(node)]


def _wait_for_gpu_nodes(bench: Bench) -> None:
    """Wait until all nodes of the pool accept GPU jobs."""
    wait_until(lambda: _list_schedulable_gpu_nodes(bench), lambda gpu_nodes: len(gpu_nodes) == NODES, LIMIT_SECONDS)


def _accepts_gpu_jobs(node: Object) -> bool:
    has_gpu = node["status"].get("allocatable", {}).get(GPU_RESOURCE) == "1"
    is_open = not node["spec"].get("unschedulable") and not node["spec"].get("taints", [])[1:]
    return POOL_LABEL in node["metadata"]["labels"] and has_gpu and is_open and has_true_condition(node, READY)


def _wait_for_checkpoint(bench: Bench) -> str:
    """Wait until the job has completed step 7 and saved a checkpoint at step 5; return the first worker's node."""
    phase, lines = wait_until(
        lambda: (bench.shell.read_phase(JOB), bench.shell.cluster("logs", JOB).out.splitlines()),
        lambda phase_and_log: phase_and_log[0] == "Failed" or "step 7" in phase_and_log[1],
        LIMIT_SECONDS,
    )
    if phase == "Failed":
        sys.exit(f"the job failed before the fault: {lines[-5:]}")
    workers = bench.client.list("Pod", bench.namespace, {JOB_LABEL: JOB, ROLE_LABEL: "worker"})
    first = min(workers, key=lambda pod: str(pod["metadata"]["name"]))
    return str(first["spec"]["nodeName"])


def _wait_for_job_end(bench: Bench) -> list[list[float]]:
    """Wait until the job has ended. Return one list per completed step: the checkpoint from which the attempt started,
    the step's number, and its time.
    """
    wait_until(lambda: bench.shell.read_phase(JOB), lambda phase: phase in ("Succeeded", "Failed"), LIMIT_SECONDS)
    steps: list[list[float]] = bench.read_printed_json(JOB, "steps")
    return steps


def _build_job(fault: Fault) -> dict[str, object]:
    return {
        "name": JOB,
        "pool": POOL,
        "workers": fault.workers,
        "image": IMAGE,
        "command": ["python3", "-u", "-c", PROGRAM, f"heal-{time.time_ns()}"],
        "maxRestarts": int(fault.is_hang),  # restarts after node failures do not count toward maxRestarts
        **({"progress": {"pattern": r"^step (\d+)$", "within": f"{WITHIN_SECONDS}s"}} if fault.is_hang else {}),
    }
