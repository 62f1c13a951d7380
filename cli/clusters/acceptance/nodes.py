"""Verdicts on Kubernetes nodes: AMIs, versions and advertised devices. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from cli.clusters.acceptance.aws_reads import Image, Instance
from cli.clusters.acceptance.checklist import Notebook
from cli.clusters.status.node_rows import is_ready
from infra.jobs.cluster import ClusterDescription, PoolDescription
from infra.jobs.quantities import bytes_of
from infra.naming import EFA_RESOURCE, GPU_RESOURCE, HUGEPAGES_RESOURCE, POOL_LABEL

Object = Mapping[str, Any]

KUBELET_SKEW: Final = 3
"""Number of minor versions by which a kubelet may be older than the API server:
https://kubernetes.io/releases/version-skew-policy/
"""
PLUGINS: Final = ("nvidia-device-plugin", "aws-efa-k8s-device-plugin")
"""Substrings of the names of the DaemonSets that run the device plugins for GPUs and EFA."""
MIB: Final = 1 << 20


def name_of(node: Object) -> str:
    return str(node["metadata"]["name"])


def counted(number: int) -> str:
    return f"{number} node{'' if number == 1 else 's'}"


def of_pool(pool: PoolDescription, nodes: Sequence[Object]) -> list[Object]:
    """Return the pool's ready nodes."""
    labels = [(node, node["metadata"].get("labels", {})) for node in nodes if is_ready(node)]
    return [node for node, own in labels if all(own.get(key) == value for key, value in pool.selector.items())]


def check_versions(
    notes: Notebook, nodes: Sequence[Object], found: Sequence[Instance], images: Mapping[str, Image], server: str
) -> None:
    """Compare the kubelets with the API server, and the AMIs of each pool's nodes with each other."""
    by_id = {one.id: one for one in found}
    amis: dict[str, set[str]] = {}
    notes.saw("API server: /version", server)
    for node in nodes:
        name, info = name_of(node), node["status"]["nodeInfo"]
        versions = f"kubelet {info['kubeletVersion']}, {info['containerRuntimeVersion']}, kernel {info['kernelVersion']}"
        notes.saw(f"node {name}: status.nodeInfo", f"{versions}, {info['osImage']}")
        if not 0 <= _minor(server) - _minor(info["kubeletVersion"]) <= KUBELET_SKEW:
            notes.fail(f"node {name}: kubelet {info['kubeletVersion']} is not compatible with the API server's {server}")
        instance = by_id.get(str(node["spec"].get("providerID", "")).rpartition("/")[2])
        if instance is None:
            notes.fail(f"node {name}: EC2 reports no running instance of this stack with ID {node['spec'].get('providerID')}")
            continue
        notes.saw(f"node {name}: ec2 describe-instances {instance.id}", f"{instance.type}, AMI {instance.image}")
        amis.setdefault(node["metadata"].get("labels", {}).get(POOL_LABEL, "?"), set()).add(instance.image)
    for pool, ids in sorted(amis.items()):
        if len(ids) > 1:
            notes.fail(f"pool {pool}: its nodes use {len(ids)} AMIs: {', '.join(sorted(ids))}; an update has not finished")
        for id in sorted(ids):
            notes.saw(f"pool {pool}: ec2 describe-images {id}", str(images.get(id, "deregistered")))
    if not nodes:
        notes.fail("the cluster has no nodes")


def _minor(version: str) -> int:
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
        name, status = name_of(plugin), plugin["status"]
        if any(part in name for part in PLUGINS):
            ready, wanted = status.get("numberReady", 0), status.get("desiredNumberScheduled", 0)
            notes.saw(f"DaemonSet {name}: status", f"{ready} of {wanted} pods ready")
            if ready != wanted:
                notes.fail(f"DaemonSet {name}: {ready} of {wanted} pods are ready")
    for pool in described.pools:
        for node in of_pool(pool, nodes):
            check_node(notes, pool, node)
    if not of_pool(smoke, nodes):
        notes.fail(f"pool {smoke.name} has no ready node, although a job just ran there")


def check_node(notes: Notebook, pool: PoolDescription, node: Object) -> None:
    """Compare one node's allocatable devices with the pool's description."""
    allocatable = node["status"].get("allocatable", {})
    found = {resource: int(allocatable.get(resource, "0")) for resource in (GPU_RESOURCE, EFA_RESOURCE)}
    pages = bytes_of(allocatable.get(HUGEPAGES_RESOURCE, "0")) // MIB
    shown = ", ".join(f"{resource} {number}" for resource, number in found.items())
    notes.saw(f"node {name_of(node)} of pool {pool.name}: status.allocatable", f"{shown}, {HUGEPAGES_RESOURCE} {pages} MiB")
    for resource, wanted in ((GPU_RESOURCE, pool.gpus), (EFA_RESOURCE, pool.efa)):
        if found[resource] != wanted:
            notes.fail(f"node {name_of(node)} of pool {pool.name} advertises {found[resource]} {resource}, not {wanted}")
    if pages < pool.hugepages_mib:
        notes.fail(f"node {name_of(node)} of pool {pool.name} has {pages} MiB of huge pages, not {pool.hugepages_mib}")


def check_drivers(notes: Notebook, reports: Sequence[Mapping[str, Any]], pool: PoolDescription, workers: int) -> None:
    """Check the driver versions that pods reported from the nodes of one pool."""
    if len(reports) != workers:
        notes.fail(f"{len(reports)} of {workers} workers reported their driver versions")
    for one in reports:
        node = one["node"] or "unknown node"
        notes.saw(
            f"node {node}: /sys/module/nvidia/version, nvidia-smi, /sys/module/efa, /sys/class/infiniband, in a pod",
            f"NVIDIA driver {one['nvidia'] or 'none'}, CUDA {one['cuda'] or 'not shown'}, "
            f"EFA driver {one['efa'] or 'none'}, {one['efaDevices']} EFA devices, kernel {one['kernel']}",
        )
        if pool.gpus and not one["nvidia"]:
            notes.needs_hardware(f"{node}: no NVIDIA driver is loaded")
        if pool.efa and (not one["efa"] or one["efaDevices"] < pool.efa):
            notes.needs_hardware(
                f"{node}: {one['efaDevices']} of {pool.efa} EFA devices, EFA driver {one['efa'] or 'not loaded'}"
            )
    for key, title in (("nvidia", "NVIDIA driver"), ("efa", "EFA driver"), ("cuda", "CUDA")):
        if len(different := {one[key] for one in reports}) > 1:
            notes.fail(f"nodes of pool {pool.name} differ in {title}: {', '.join(sorted(map(str, different)))}")
