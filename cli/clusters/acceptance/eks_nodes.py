"""Nodes of an EKS cluster: verdicts on AMIs, versions and devices, and the check that scales a pool from zero."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cli.clusters.acceptance.aws_reads import Image, Instance
from cli.clusters.acceptance.own_jobs import JobWorld
from cli.clusters.acceptance.report import Notebook
from cli.clusters.status.cluster_status import PoolStatus
from cli.clusters.status.node_rows import is_ready
from cli.console import say
from cli.errors import CommandError
from infra.jobs.cluster import ClusterDescription, PoolDescription
from infra.jobs.sizing import parse_bytes
from infra.naming import EFA_RESOURCE, GPU_RESOURCE, HUGEPAGES_RESOURCE, POOL_LABEL

Object = Mapping[str, Any]

KUBELET_SKEW: Final = 3
"""Number of minor versions by which a kubelet may be older than the API server:
https://kubernetes.io/releases/version-skew-policy/
"""
PLUGINS: Final = ("nvidia-device-plugin", "aws-efa-k8s-device-plugin")
"""Substrings of the names of the DaemonSets that run the device plugins for GPUs and EFA."""
MIB: Final = 1 << 20


def get_node_name(node: Object) -> str:
    return str(node["metadata"]["name"])


def format_node_count(number: int) -> str:
    return f"{number} node{'' if number == 1 else 's'}"


def select_ready_nodes(pool: PoolDescription, nodes: Sequence[Object]) -> list[Object]:
    """Return the pool's ready nodes."""
    labels = [(node, node["metadata"].get("labels", {})) for node in nodes if is_ready(node)]
    return [node for node, own in labels if all(own.get(key) == value for key, value in pool.node_selector.items())]


def check_versions(
    notes: Notebook, nodes: Sequence[Object], instances: Sequence[Instance], images: Mapping[str, Image], server: str
) -> None:
    """Compare the kubelets with the API server, and the AMIs of each pool's nodes with each other."""
    by_id = {instance.id: instance for instance in instances}
    amis: dict[str, set[str]] = {}
    notes.record_evidence("API server: /version", server)
    for node in nodes:
        name, info = get_node_name(node), node["status"]["nodeInfo"]
        versions = f"kubelet {info['kubeletVersion']}, {info['containerRuntimeVersion']}, kernel {info['kernelVersion']}"
        notes.record_evidence(f"node {name}: status.nodeInfo", f"{versions}, {info['osImage']}")
        if not 0 <= parse_minor_version(server) - parse_minor_version(info["kubeletVersion"]) <= KUBELET_SKEW:
            notes.record_failure(
                f"node {name}: kubelet {info['kubeletVersion']} is not compatible with the API server's {server}"
            )
        instance = by_id.get(str(node["spec"].get("providerID", "")).rpartition("/")[2])
        if instance is None:
            notes.record_failure(
                f"node {name}: EC2 reports no running instance of this stack with ID {node['spec'].get('providerID')}"
            )
            continue
        notes.record_evidence(f"node {name}: ec2 describe-instances {instance.id}", f"{instance.type}, AMI {instance.image}")
        amis.setdefault(node["metadata"].get("labels", {}).get(POOL_LABEL, "?"), set()).add(instance.image)
    for pool, ids in sorted(amis.items()):
        if len(ids) > 1:
            notes.record_failure(
                f"pool {pool}: its nodes use {len(ids)} AMIs: {', '.join(sorted(ids))}; an update has not finished"
            )
        for id in sorted(ids):
            notes.record_evidence(f"pool {pool}: ec2 describe-images {id}", str(images.get(id, "deregistered")))
    if not nodes:
        notes.record_failure("the cluster has no nodes")


def parse_minor_version(version: str) -> int:
    """
    >>> _minor("v1.35.0"), _minor("1.34.2-eks-1a2b")
    (35, 34)
    """
    return int(version.removeprefix("v").split(".")[1])


def check_devices(
    notes: Notebook, described: ClusterDescription, smoke: PoolDescription, nodes: Sequence[Object], plugins: Sequence[Object]
) -> None:
    """Check that device plugins are ready, and that every ready node advertises the devices in its pool's description.

    `smoke`: the pool of the smoke test, which must have at least one ready node.
    """
    for plugin in plugins:
        name, status = get_node_name(plugin), plugin["status"]
        if any(part in name for part in PLUGINS):
            ready, scheduled = status.get("numberReady", 0), status.get("desiredNumberScheduled", 0)
            notes.record_evidence(f"DaemonSet {name}: status", f"{ready} of {scheduled} pods ready")
            if ready != scheduled:
                notes.record_failure(f"DaemonSet {name}: {ready} of {scheduled} pods are ready")
    for pool in described.pools:
        for node in select_ready_nodes(pool, nodes):
            check_node_devices(notes, pool, node)
    if not select_ready_nodes(smoke, nodes):
        notes.record_failure(f"pool {smoke.name} has no ready node, although a job has just run there")


def check_node_devices(notes: Notebook, pool: PoolDescription, node: Object) -> None:
    """Compare one node's allocatable devices with the pool's description."""
    allocatable = node["status"].get("allocatable", {})
    advertised = {resource: int(allocatable.get(resource, "0")) for resource in (GPU_RESOURCE, EFA_RESOURCE)}
    pages = parse_bytes(allocatable.get(HUGEPAGES_RESOURCE, "0")) // MIB
    shown = ", ".join(f"{resource} {number}" for resource, number in advertised.items())
    notes.record_evidence(
        f"node {get_node_name(node)} of pool {pool.name}: status.allocatable", f"{shown}, {HUGEPAGES_RESOURCE} {pages} MiB"
    )
    for resource, expected in ((GPU_RESOURCE, pool.gpus), (EFA_RESOURCE, pool.efa)):
        if advertised[resource] != expected:
            notes.record_failure(
                f"node {get_node_name(node)} of pool {pool.name} advertises {advertised[resource]} {resource}, not {expected}"
            )
    if pages < pool.hugepages_mib:
        notes.record_failure(
            f"node {get_node_name(node)} of pool {pool.name} has {pages} MiB of huge pages, not {pool.hugepages_mib}"
        )


def check_drivers(notes: Notebook, reports: Sequence[Mapping[str, Any]], pool: PoolDescription, workers: int) -> None:
    """Check the driver versions that pods reported from the nodes of one pool."""
    if len(reports) != workers:
        notes.record_failure(f"{len(reports)} of {workers} workers reported their driver versions")
    for report in reports:
        node = report["node"] or "unknown node"
        notes.record_evidence(
            f"node {node}: /sys/module/nvidia/version, nvidia-smi, /sys/module/efa, /sys/class/infiniband, in a pod",
            f"NVIDIA driver {report['nvidia'] or 'none'}, CUDA {report['cuda'] or 'not shown'}, "
            f"EFA driver {report['efa'] or 'none'}, {report['efaDevices']} EFA devices, kernel {report['kernel']}",
        )
        if pool.gpus and not report["nvidia"]:
            notes.record_missing_hardware(f"{node}: no NVIDIA driver is loaded")
        if pool.efa and (not report["efa"] or report["efaDevices"] < pool.efa):
            notes.record_missing_hardware(
                f"{node}: {report['efaDevices']} of {pool.efa} EFA devices, EFA driver {report['efa'] or 'not loaded'}"
            )
    for key, title in (("nvidia", "NVIDIA driver"), ("efa", "EFA driver"), ("cuda", "CUDA")):
        if len(different := {report[key] for report in reports}) > 1:
            notes.record_failure(f"nodes of pool {pool.name} differ in {title}: {', '.join(sorted(map(str, different)))}")


SCALE_JOB: Final = "scale"
POLL_SECONDS: Final = 2.0
REMOVAL_MINUTES: Final = 15.0
"""Maximum time to remove an idle node after its `idleMinutes`: drain, terminate, delete the Node object."""
AWS_SECONDS: Final = 120.0
SIMULATED_LABEL: Final = "gpumpi.dev/simulated"
"""Label of nodes that are only simulated because the local cloud has reached its limit. Such nodes run no pods."""
NO_ROOM: Final = "only simulated until another node is removed: the local cloud's limit (GPUMPI_LOCAL_NODES) is reached"


@dataclass(frozen=True)
class Scaling:
    """Test that scales one pool of an EKS cluster."""

    jobs: JobWorld
    pool: PoolDescription
    idle_minutes: float
    in_aws: Callable[[], PoolStatus]
    """Queries AWS for the desired size and failed launches of the pool."""
    pause: Callable[[float], Any] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def run(self, notes: Notebook) -> None:
        before = self.count()
        if before:
            self._wait_for_empty_pool(notes, f"before the job, with {format_node_count(before)}")
        self._run_job(notes)
        self._wait_for_empty_pool(notes, "after the job")
        desired = self._wait_for_zero_desired_size()
        notes.record_evidence(f"autoscaling describe-auto-scaling-groups: desired size of pool {self.pool.name}", desired)
        if desired:
            notes.record_failure(f"pool {self.pool.name}: its nodes are gone, but AWS still reports desired size {desired}")

    def count(self) -> int:
        """Return the number of the pool's Node objects, ready or not."""
        return len(self.jobs.cluster.list("Node", selector=self.pool.node_selector))

    def _run_job(self, notes: Notebook) -> None:
        """Run a job on the empty pool, while a thread prints the number of the pool's nodes."""
        started = self.clock()
        job = self.jobs.job(SCALE_JOB, self.pool.name, 1, ("true",))
        self.jobs.submit(job)
        ended = threading.Event()
        watcher = threading.Thread(target=self._print_node_count, args=(ended,), daemon=True)
        watcher.start()
        try:
            state = self.jobs.follow(job, lambda line: None)
            ready = select_ready_nodes(self.pool, self.jobs.cluster.list("Node"))
        except CommandError as error:
            raise CommandError(f"{error}{self._describe_failed_launch()}") from None
        finally:
            ended.set()
            watcher.join()
            self.jobs.delete(job.name)
        seconds = self.clock() - started
        notes.record_evidence(f"job {job.name}: phase, on a pool that had no nodes", f"{state.phase} after {seconds:.0f} s")
        if state.phase != "Succeeded":
            notes.record_failure(
                f"the job on the empty pool {self.pool.name} is {state.phase}: {state.reason}{self._describe_failed_launch()}"
            )
        if not ready:
            notes.record_failure(f"pool {self.pool.name} has no ready node after the job, which ran elsewhere")
        for node in ready:
            check_node_devices(notes, self.pool, node)

    def _print_node_count(self, ended: threading.Event) -> None:
        """Print the number of nodes whenever it changes. The job's follower prints why the job is waiting."""
        last = ""
        while not ended.wait(POLL_SECONDS):
            try:
                there = self.jobs.cluster.list("Node", selector=self.pool.node_selector)
            except CommandError:
                continue  # the job's follower reports an unavailable API server
            simulated = sum(SIMULATED_LABEL in node["metadata"]["labels"] for node in there)
            text = f"  pool {self.pool.name}: {format_node_count(len(there))}{f', {simulated} {NO_ROOM}' if simulated else ''}"
            if text != last:
                last = text
                say(text)

    def _describe_failed_launch(self) -> str:
        launch = self.in_aws().last_failed_launch
        return f"; last failed launch: {launch.reason}" if launch and not launch.later_launch_succeeded else ""

    def _wait_for_empty_pool(self, notes: Notebook, when: str) -> None:
        """Wait until the pool has no nodes. Raises CommandError if this takes too long."""
        started, last = self.clock(), -1
        limit = (self.idle_minutes + REMOVAL_MINUTES) * 60
        while there := self.count():
            seconds = self.clock() - started
            if seconds > limit:
                raise CommandError(
                    f"pool {self.pool.name} still has {format_node_count(there)} after {seconds / 60:.0f} minutes ({when})"
                )
            if there != last:
                last = there
                say(f"  pool {self.pool.name}: {format_node_count(there)}; removed after {self.idle_minutes:g} idle minutes")
            self.pause(POLL_SECONDS)
        seconds = self.clock() - started
        notes.record_evidence(f"nodes of pool {self.pool.name} {when}", f"0 after {seconds:.0f} s")

    def _wait_for_zero_desired_size(self) -> int | None:
        """Wait until the desired size is 0, and return 0; at the time limit, return the last desired size."""
        started = self.clock()
        while (desired := self.in_aws().wanted) and self.clock() - started < AWS_SECONDS:
            self.pause(POLL_SECONDS)
        return desired
