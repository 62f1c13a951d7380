"""`python -m bench.kubernetes_scale`: start a thousand simulated GPU nodes, fill them with MPI jobs, and remove them."""

import argparse
import json
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.platform_cluster import describe_machine, print_progress, run_cluster
from bench.timed_job import Bench
from bench.usage import Cpu, Peaks, compute_spent_cpu
from bench.watching import Object, Watch, find_condition_time, has_true_condition
from infra.jobs.cluster import ClusterDescription, TaintDescription
from infra.naming import JOB_LABEL, QUEUE_NAME, ROLE_LABEL
from infra.platform import admission
from localcloud.kubernetes.nodes.labels import SIMULATED

STACK, POOL = "thousand", "train"
NODES, BIG, SMALL_JOBS, SMALL = 1000, 512, 200, 4
"""Nodes, workers of the big job, number of small jobs, workers per small job. The nodes cannot run all jobs at the same
time.
"""
ANY_QUOTA = {"L-417A185B": 1e6, "L-DF5E4CA3": 1e6, "L-BD136A63": 1e6, "L-7A658B76": 1e6}
"""Maps each quota code to a value that allows any number of nodes. Quotas: vCPUs of P instances, network interfaces, nodes per
group, TiB of gp3 volumes.
"""
LIMIT_SECONDS = 1500.0


@dataclass
class Seen:
    """Cluster state collected from watches. Events arrive in the API server's order."""

    sizes: dict[str, int]
    """Maps each job to its number of workers."""
    nodes: set[str] = field(default_factory=set)
    ready: set[str] = field(default_factory=set)
    highest_node_count: int = 0
    bound: dict[str, set[str]] = field(default_factory=dict)
    """Maps a job to the workers that have been bound to a node."""
    whole: dict[str, float] = field(default_factory=dict)
    """Maps a job to the time at which all its workers were bound."""
    over: dict[str, float] = field(default_factory=dict)
    """Maps a job to the time at which it succeeded."""
    queued: dict[str, str] = field(default_factory=dict)
    """Maps a job to the time at which it entered the queue, as recorded by the API server."""
    admitted: dict[str, str] = field(default_factory=dict)
    """Maps each job to the time at which Kueue reserved quota for it, as recorded by Kueue. Kueue writes the status of
    several jobs at the same time, so events can arrive in another order."""
    changed: threading.Condition = field(default_factory=threading.Condition)

    def handle_node_event(self, kind: str, node: Object, _: float) -> None:
        name = node["metadata"]["name"]
        with self.changed:
            if kind == "DELETED":
                self.nodes.discard(name)
                self.ready.discard(name)
            elif node["metadata"]["labels"].get("gpumpi.io/pool") == POOL:
                self.nodes.add(name)
                if has_true_condition(node, "Ready"):
                    self.ready.add(name)
            self.highest_node_count = max(self.highest_node_count, len(self.nodes))
            self.changed.notify_all()

    def handle_pod_event(self, _: str, pod: Object, now: float) -> None:
        labels, job = pod["metadata"]["labels"], pod["metadata"]["labels"].get(JOB_LABEL, "")
        if labels.get(ROLE_LABEL) != "worker" or "nodeName" not in pod["spec"]:
            return
        with self.changed:
            bound = self.bound.setdefault(job, set())
            bound.add(pod["metadata"]["name"])
            if len(bound) == self.sizes[job]:
                self.whole.setdefault(job, now)
            self.changed.notify_all()

    def handle_job_event(self, _: str, job: Object, now: float) -> None:
        if has_true_condition(job, "Succeeded"):
            with self.changed:
                self.over.setdefault(job["metadata"]["name"], now)
                self.changed.notify_all()

    def handle_workload_event(self, _: str, workload: Object, __: float) -> None:
        job = next(owner["name"] for owner in workload["metadata"]["ownerReferences"] if owner["kind"] == "MPIJob")
        with self.changed:
            self.queued.setdefault(job, workload["metadata"]["creationTimestamp"])
            if since := find_condition_time(workload, "QuotaReserved"):
                self.admitted.setdefault(job, since)

    def wait(self, reached: Callable[[], bool], doing: str) -> None:
        with self.changed:
            if not self.changed.wait_for(reached, LIMIT_SECONDS):
                sys.exit(f"{doing}: not done after {LIMIT_SECONDS:.0f} s; {self}")

    def find_out_of_order_admissions(self) -> list[str]:
        """Return the jobs that Kueue admitted at least one second before a job that had entered the queue at least one
        second earlier. Timestamps have a resolution of one second.
        """
        times = [(self.queued[job], admitted) for job, admitted in self.admitted.items()]
        return [
            job
            for job, admitted in self.admitted.items()
            if any(queued < self.queued[job] and later > admitted for queued, later in times)
        ]

    def __str__(self) -> str:
        return f"{len(self.ready)} nodes ready, {len(self.whole)} of {len(self.sizes)} jobs bound, {len(self.over)} over"


@dataclass(frozen=True)
class NodeGroup:
    """Node group of the pool, resized through the EKS API."""

    bench: Bench

    def resize(self, size: int, most: int) -> None:
        eks = self._client("eks")
        (cluster,) = eks.list_clusters()["clusters"]
        names = eks.list_nodegroups(clusterName=cluster)["nodegroups"]
        name = next(name for name in names if POOL in name)
        sizes = {"minSize": 0, "maxSize": most, "desiredSize": size}
        eks.update_nodegroup_config(clusterName=cluster, nodegroupName=name, scalingConfig=sizes)

    def instances(self) -> int:
        filters = [
            {"Name": "instance-state-name", "Values": ["pending", "running", "shutting-down"]},
            {"Name": "instance-type", "Values": ["p4d.24xlarge"]},
        ]
        pages = self._client("ec2").get_paginator("describe_instances").paginate(Filters=filters)
        return sum(len(reservation["Instances"]) for page in pages for reservation in page["Reservations"])

    def _client(self, service: str) -> Any:
        return self.bench.shell.cloud.clients("us-west-2")(service)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--big", type=int, default=BIG, help="number of workers of the big job")
    parser.add_argument(
        "--jobs", type=int, default=SMALL_JOBS, help="number of small jobs, half of them submitted before the big one"
    )
    parser.add_argument("--small", type=int, default=SMALL, help="number of workers of each small job")
    parser.add_argument(
        "--cloud", type=Path, help="local cloud in which the stack is already running; the benchmark leaves it running"
    )
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    about = describe_machine()
    with run_cluster(STACK, arguments.cloud, nodes="cpu=1,gpu=0") as shell:
        result = measure_scaling(
            Bench.from_shell(shell), arguments.nodes, worker_counts_by_job(arguments.big, arguments.jobs, arguments.small)
        )
    if arguments.json:
        print(json.dumps({**about, **result}, indent=1))
    else:
        _print_result(result)
    sys.exit(1 if result["problems"] else 0)


def worker_counts_by_job(big: int, jobs: int, small: int) -> dict[str, int]:
    """Return the number of workers of each job, in order of submission, with the big job in the middle."""
    every = [(f"small-{number}", small) for number in range(jobs)]
    return dict([*every[: jobs // 2], ("big", big), *every[jobs // 2 :]])


@dataclass
class Steps:
    """Duration and CPU time of each step, in seconds."""

    usage: Peaks
    seconds: dict[str, float] = field(default_factory=dict)
    cpu: dict[str, Cpu] = field(default_factory=dict)

    @contextmanager
    def step(self, name: str) -> Iterator[float]:
        """Measure the duration of the `with` block. Yield its start time."""
        started, before = time.time(), self.usage.cpu()
        yield started
        self.record_seconds(name, started)
        self.cpu[name] = compute_spent_cpu(before, self.usage.cpu())

    def record_seconds(self, name: str, started: float, moment: float | None = None) -> None:
        self.seconds[name] = round((moment or time.time()) - started, 1)


def measure_scaling(bench: Bench, nodes: int, workers_by_job: dict[str, int]) -> dict[str, Any]:
    observed, group = Seen(workers_by_job), NodeGroup(bench)
    bench.shell.cloud.control().put("quotas", ANY_QUOTA)
    described = _enlarge_pool(bench.described, nodes)
    _update_queue_quota(bench, described)
    inside = f"namespaces/{bench.namespace}"
    watches = {
        "/api/v1/nodes": observed.handle_node_event,
        f"/api/v1/{inside}/pods": observed.handle_pod_event,
        f"/apis/kubeflow.org/v2beta1/{inside}/mpijobs": observed.handle_job_event,
        f"/apis/kueue.x-k8s.io/v1beta2/{inside}/workloads": observed.handle_workload_event,
    }
    with Peaks(bench.shell.cloud) as usage, ExitStack() as watching:
        steps = Steps(usage)
        for path, hear in watches.items():
            watching.enter_context(Watch(bench.shell.kubeconfig, path, hear))
        print_progress(f"node group 0 -> {nodes}")
        with steps.step(f"nodes 0 -> {nodes}"):
            group.resize(nodes, nodes)
            observed.wait(lambda: len(observed.ready) == nodes, "starting nodes")
        print_progress(f"{len(workers_by_job)} jobs with {sum(workers_by_job.values())} workers")
        with steps.step("submission -> all jobs over") as started:
            for name, workers in workers_by_job.items():
                bench.submit(_build_job(name, workers), described)
            steps.record_seconds("submitting the jobs", started)
            observed.wait(lambda: len(observed.whole) == len(workers_by_job), "binding jobs")
            steps.record_seconds("submission -> big job bound", started, observed.whole["big"])
            steps.record_seconds("submission -> all jobs bound", started, max(observed.whole.values()))
            observed.wait(lambda: len(observed.over) == len(workers_by_job), "finishing jobs")
        print_progress(f"node group {nodes} -> 0")
        with steps.step(f"nodes {nodes} -> 0"):
            group.resize(0, nodes)
            observed.wait(lambda: not observed.nodes, "removing nodes")
    problems = list(_find_problems(observed, nodes, group.instances()))
    return {
        "nodes": nodes,
        "jobs": len(workers_by_job),
        "workers": sum(workers_by_job.values()),
        "seconds": steps.seconds,
        "cpuSeconds": steps.cpu,
        "peakMib": usage.peaks,
        "problems": problems,
    }


def _find_problems(observed: Seen, nodes: int, instances: int) -> Iterable[str]:
    if observed.highest_node_count != nodes:
        yield f"the cluster had at most {observed.highest_node_count} nodes, expected {nodes}"
    if observed.nodes or instances:
        yield f"{len(observed.nodes)} nodes and {instances} instances were not removed"
    if overtaken := observed.find_out_of_order_admissions():
        yield f"jobs overtook jobs that had waited longer: {', '.join(overtaken)}"


def _enlarge_pool(described: ClusterDescription, nodes: int) -> ClusterDescription:
    """Return the description with this many simulated nodes in the pool. Launchers run on simulated nodes too, because
    there are no real workers to start.
    """
    taint = TaintDescription(key=SIMULATED.key, value=SIMULATED.value)
    pools = [
        pool.model_copy(update={"max_size": nodes, "taints": (*pool.taints, taint)}) if pool.name == POOL else pool
        for pool in described.pools
    ]
    return described.model_copy(update={"pools": tuple(pools), "launcher_pool": POOL})


def _update_queue_quota(bench: Bench, described: ClusterDescription) -> None:
    spec = admission.build_cluster_queue(described.pools, described.cpu_request_factor, strict=True)
    patch = json.dumps({"spec": {"resourceGroups": spec["resourceGroups"], "queueingStrategy": spec["queueingStrategy"]}})
    done = bench.shell.kubectl("patch", "clusterqueue", QUEUE_NAME, "--type", "merge", "-p", patch)
    if done.code:
        sys.exit(f"could not raise the queue's quota: {done.err}")


def _build_job(name: str, workers: int) -> dict[str, object]:
    return {"name": name, "pool": POOL, "workers": workers, "image": "openmpi:5", "command": ["true"], "volumes": []}


def _print_result(result: dict[str, Any]) -> None:
    console = Console()
    title = f"{result['nodes']} nodes, {result['jobs']} jobs, {result['workers']} workers"
    table = Table("step", "seconds", title=title)
    for what, seconds in result["seconds"].items():
        table.add_row(what, str(seconds))
    console.print(table)
    memory = Table("program", "peak memory, MiB")
    for name, peak in sorted(result["peakMib"].items(), key=lambda item: -item[1]):
        memory.add_row(name, str(peak))
    console.print(memory)
    for step, used in result["cpuSeconds"].items():
        console.print(f"CPU seconds, {step}: {', '.join(f'{name} {seconds}' for name, seconds in used.items())}")
    for problem in result["problems"]:
        console.print(f"WRONG: {problem}", style="red")
    if not result["problems"]:
        console.print("no extra nodes were started, all nodes were removed, and jobs were admitted in order")


if __name__ == "__main__":
    main()
