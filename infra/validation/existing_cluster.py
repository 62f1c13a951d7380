"""Rules for stacks on an existing cluster. Some rules check the stack file alone; others compare it with the cluster's state."""

import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from infra.config.messages import format_value, join_with_and, join_with_or, suggest_correction
from infra.config.problems import Problem, create_warning
from infra.facts.existing_cluster import ClusterFacts, Node
from infra.jobs.containers import LAUNCHER_CPU_MILLIS, LAUNCHER_MEMORY_MIB
from infra.jobs.pod_rules import check_label_syntax
from infra.jobs.sizing import check_quantity
from infra.naming import SYSTEM_POOL
from infra.plan.cluster_description import describe_existing_cluster, list_system_nodes
from infra.settings.existing import ClassOfStorage, ExistingSettings, Nfs
from infra.validation.jobs import check_jobs
from infra.validation.registry import EXISTING, register_rule
from infra.validation.storage import check_mount_path
from infra.versions import LIVE_KUBERNETES_VERSIONS

_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*")
_OBJECT_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
_RDMA = re.compile(r"rdma/[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
MAXIMUM_GPUS = 64


# --- the file alone ----------------------------------------------------------------------------------------------------


@register_rule(target=EXISTING)
def check_kubeconfig_path(settings: ExistingSettings) -> Iterator[Problem]:
    path = settings.target.kubeconfig.path
    if path is not None and not path.startswith(("/", "~/")):
        yield Problem(
            "target.kubeconfig.path",
            f"{format_value(path)} depends on the working directory of `pulumi`. "
            "Use an absolute path, or one that starts with ~/",
        )


@register_rule(target=EXISTING)
def check_node_selectors(settings: ExistingSettings) -> Iterator[Problem]:
    yield from _check_selector("target.system.nodeSelector", settings.target.system.node_selector)
    for index, pool in enumerate(settings.pools):
        where = f"pools[{index}].nodeSelector"
        if not pool.node_selector:
            yield Problem(
                where,
                "is empty, which selects every node. Set it to labels that only this pool's nodes have, "
                'such as {example.com/rack: "1"}.',
            )
        yield from _check_selector(where, pool.node_selector)


def _check_selector(where: str, selector: Mapping[str, str]) -> Iterator[Problem]:
    for key, value in selector.items():
        yield from check_label_syntax(f"{where}.{key}", key, value)


@register_rule(target=EXISTING)
def check_node_and_gpu_counts(settings: ExistingSettings) -> Iterator[Problem]:
    for index, pool in enumerate(settings.pools):
        if pool.nodes < 1:
            yield Problem(f"pools[{index}].nodes", f"{pool.nodes} is too small. Use at least 1, or remove the pool.")
        if not 0 <= pool.gpus_per_node <= MAXIMUM_GPUS:
            yield Problem(f"pools[{index}].gpusPerNode", f"{pool.gpus_per_node} is out of range. Use 0 to {MAXIMUM_GPUS}.")


@register_rule(target=EXISTING)
def check_infiniband(settings: ExistingSettings) -> Iterator[Problem]:
    """Check that GPU pools set `rdmaResource` if jobs use InfiniBand, and that no pool sets it otherwise."""
    is_infiniband = settings.platform.transport == "infiniband"
    for index, pool in enumerate(settings.pools):
        where, name = f"pools[{index}].rdmaResource", pool.rdma_resource
        if name is not None and not _RDMA.fullmatch(name):
            yield Problem(
                where, f"{format_value(name)} is not a resource of an RDMA plugin. Use one such as rdma/hca_shared_devices_a."
            )
        elif name is None and is_infiniband and pool.gpus_per_node:
            fix = "Set a resource that `kubectl describe node` lists, such as rdma/hca_shared_devices_a, or use transport: tcp."
            yield Problem(where, f"is missing, but platform.transport is infiniband. {fix}")
        elif name is not None and not is_infiniband:
            fix = "Set platform.transport: infiniband, or remove it."
            yield create_warning(where, f"has no effect, because platform.transport is tcp. {fix}")
    if is_infiniband and not any(pool.rdma_resource or pool.gpus_per_node for pool in settings.pools):
        yield Problem(
            "platform.transport", "is infiniband, but no pool has an rdmaResource. Add an rdmaResource to a pool, or use tcp."
        )


@register_rule(target=EXISTING)
def check_volume(settings: ExistingSettings) -> Iterator[Problem]:
    volume = settings.storage
    if settings.mount_path is not None:
        yield from check_mount_path("storage.mountPath", settings.mount_path)
    if isinstance(volume, Nfs):
        if not _HOST.fullmatch(volume.server) and not _is_server_address(volume.server):
            yield Problem(
                "storage.server", f"{format_value(volume.server)} is not a host name or IP address. Use one such as 10.0.0.5."
            )
        path = PurePosixPath(volume.path)
        if not path.is_absolute() or ".." in path.parts:
            yield Problem(
                "storage.path", f"{format_value(volume.path)} is not an absolute path without `..`. Use one such as /export/jobs."
            )
    if isinstance(volume, ClassOfStorage):
        if not _OBJECT_NAME.fullmatch(volume.name):
            yield Problem(
                "storage.name",
                f"{format_value(volume.name)} is not a valid StorageClass name. Use one that `kubectl get storageclass` lists.",
            )
        yield from check_quantity("storage.size", volume.size)


def _is_server_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


# --- with the cluster --------------------------------------------------------------------------------------------------


@register_rule(target=EXISTING)
def check_cluster_version(settings: ExistingSettings, facts: ClusterFacts) -> Iterator[Problem]:
    oldest = LIVE_KUBERNETES_VERSIONS[0]
    if _parse_version(facts.version) < _parse_version(oldest):
        needs = f"the platform needs {oldest} or newer. Upgrade the cluster."
        yield Problem("target.kubeconfig", f"the cluster at {facts.server} has Kubernetes {facts.version}, but {needs}")


def _parse_version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])


@register_rule(target=EXISTING)
def check_system_nodes(settings: ExistingSettings, facts: ClusterFacts) -> Iterator[Problem]:
    selector, where = settings.target.system.node_selector, "target.system.nodeSelector"
    if list_system_nodes(settings, facts):
        return
    selected = facts.find_nodes(selector)
    if not facts.nodes:
        yield Problem(
            where, f"the cluster at {facts.server} has no nodes. Join nodes to the cluster (docs/guides/on-premises.md)."
        )
    elif not selected:
        yield Problem(where, f"no node has {_describe_labels(selector)}. Label a node, or remove the key.")
    else:
        fix = "Select other nodes, or remove the taint from one (`kubectl taint nodes NAME KEY-`)."
        yield Problem(where, f"all selected nodes ({_join_names([node.name for node in selected])}) have taints. {fix}")


@register_rule(target=EXISTING)
def check_launchers_fit(settings: ExistingSettings, facts: ClusterFacts) -> Iterator[Problem]:
    """Check that a launcher fits on each node that may run it: otherwise MPI jobs would wait forever."""
    description = describe_existing_cluster(settings, facts)
    pool, cpu_millis = description.pool(SYSTEM_POOL), int(LAUNCHER_CPU_MILLIS * settings.platform.cpu_request_factor)
    if pool and pool.max_size and (pool.cpu_millis < cpu_millis or pool.memory_mib < LAUNCHER_MEMORY_MIB):
        needs = f"a launcher needs {cpu_millis}m CPU and {LAUNCHER_MEMORY_MIB} MiB"
        there = f"the smallest selected node has only {pool.cpu_millis}m and {pool.memory_mib} MiB left"
        yield Problem("target.system.nodeSelector", f"{needs}, but {there}. Select larger nodes.")


@register_rule(target=EXISTING)
def check_pool_nodes(settings: ExistingSettings, facts: ClusterFacts) -> Iterator[Problem]:
    """Check that the cluster has enough nodes for each pool, and that no node belongs to two pools."""
    pool_of: dict[str, str] = {}
    for index, pool in enumerate(settings.pools):
        where, nodes, labels = f"pools[{index}]", facts.find_nodes(pool.node_selector), _describe_labels(pool.node_selector)
        if not nodes:
            command = f"kubectl label nodes NAME {' '.join(f'{key}={value}' for key, value in pool.node_selector.items())}"
            yield Problem(f"{where}.nodeSelector", f"no node of the cluster has {labels}. Label the pool's nodes: {command}")
        elif len(nodes) < pool.nodes:
            there = f"only {len(nodes)} ({_join_names([node.name for node in nodes])}) of the cluster's nodes have {labels}"
            yield Problem(f"{where}.nodes", f"is {pool.nodes}, but {there}. Set {len(nodes)}, or join and label more nodes.")
        for node in nodes:
            if other_pool := pool_of.get(node.name):
                message = f"selects node {node.name}, which {other_pool} also selects. Give the two pools different labels."
                yield Problem(f"{where}.nodeSelector", message)
            pool_of.setdefault(node.name, where)


@register_rule(target=EXISTING)
def check_gpus(settings: ExistingSettings, facts: ClusterFacts) -> Iterator[Problem]:
    """Check that each node offers at least the expected number of GPUs. If this program installs the device plugin,
    skip nodes where no device plugin has registered yet."""
    for index, pool in enumerate(settings.pools):
        where, expected = f"pools[{index}].gpusPerNode", pool.gpus_per_node
        nodes = facts.find_nodes(pool.node_selector)
        if without := [node.name for node in nodes if expected and _offers_no_gpus(node, settings)]:
            fix = "Check the driver there with `nvidia-smi`, or remove the label."
            yield Problem(
                where, f"is {expected}, but {_join_names(without)} offers no GPUs: the device plugin there finds none. {fix}"
            )
        elif fewer := [node for node in nodes if node.gpus and node.gpus < expected]:
            offers = f"{fewer[0].name} offers {fewer[0].gpus}"
            yield Problem(where, f"is {expected}, but {offers}. Set {fewer[0].gpus}, or put that node into its own pool.")
        elif expected and not settings.platform.device_plugin and (silent := [node.name for node in nodes if node.gpus is None]):
            fix = "Remove platform.devicePlugin: false, or install a device plugin there."
            yield Problem(where, f"is {expected}, but no device plugin offers GPUs on {_join_names(silent)}. {fix}")


@register_rule(target=EXISTING)
def check_rdma(settings: ExistingSettings, facts: ClusterFacts) -> Iterator[Problem]:
    """Check that each node of a pool with InfiniBand offers its RDMA resource. This program does not install an RDMA
    device plugin."""
    for index, pool in enumerate(settings.pools):
        name = pool.rdma_resource
        if not name or settings.platform.transport != "infiniband":
            continue
        nodes = facts.find_nodes(pool.node_selector)
        if without := [node.name for node in nodes if not node.rdma.get(name)]:
            offered = sorted({resource for node in nodes for resource, amount in node.rdma.items() if amount} - {name})
            hint = suggest_correction(name, offered) or (
                f". Use {join_with_or(offered)}." if offered else ". Check the RDMA device plugin there."
            )
            yield Problem(f"pools[{index}].rdmaResource", f"is {name}, missing on {_join_names(without)}{hint}")


def _offers_no_gpus(node: Node, settings: ExistingSettings) -> bool:
    """True if the node offers no GPUs, and installing the platform will not change that.

    After a device plugin is removed, a node reports 0 GPUs until its kubelet restarts.
    """
    return not node.gpus and (node.has_plugin or (node.gpus == 0 and not settings.platform.device_plugin))


@register_rule(target=EXISTING)
def check_storage_class(settings: ExistingSettings, facts: ClusterFacts) -> Iterator[Problem]:
    volume = settings.storage
    if isinstance(volume, ClassOfStorage) and volume.name not in facts.storage_classes:
        classes = sorted(facts.storage_classes)
        hint = suggest_correction(volume.name, classes) or (
            f". Use {join_with_or(classes)}." if classes else ". The cluster has none: install one, or use nfs."
        )
        yield Problem("storage.name", f"{format_value(volume.name)} is not a StorageClass of the cluster{hint}")


@register_rule(target=EXISTING)
def check_jobs_fit(settings: ExistingSettings, facts: ClusterFacts) -> Iterator[Problem]:
    yield from check_jobs(settings, describe_existing_cluster(settings, facts))


def list_nodes_without_gpus(settings: ExistingSettings, facts: ClusterFacts) -> list[str]:
    """Return the nodes of GPU pools that offer no GPUs because no device plugin has registered there yet."""
    pools = [pool for pool in settings.pools if pool.gpus_per_node]
    nodes = [node for pool in pools for node in facts.find_nodes(pool.node_selector)]
    return [node.name for node in nodes if not node.gpus and not node.has_plugin]


def _describe_labels(selector: Mapping[str, str]) -> str:
    return f"the label{'' if len(selector) == 1 else 's'} {join_with_and(f'{key}={value}' for key, value in selector.items())}"


def _join_names(names: Sequence[str]) -> str:
    """Join the first three names, and give the number of the others."""
    return join_with_and(names) if len(names) <= 3 else f"{', '.join(names[:3])} and {len(names) - 3} more"
