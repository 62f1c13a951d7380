"""Rules for stacks on an existing cluster. Some check the stack file alone, others compare it with the cluster's
state."""

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath

from infra.config.messages import all_of, did_you_mean, one_of, shown
from infra.config.problems import Problem, is_below, warning, without_echoes
from infra.facts.existing_cluster import ClusterFacts, Node
from infra.jobs.pods import LAUNCHER_CPU_MILLIS, LAUNCHER_MEMORY_MIB
from infra.jobs.quantities import bytes_of
from infra.naming import SYSTEM_POOL
from infra.plan.existing_cluster_description import describe, system_nodes
from infra.settings.existing import ClassOfStorage, ExistingSettings, Nfs
from infra.validation import jobs, labels, names, platform, storage
from infra.versions import LIVE_KUBERNETES_VERSIONS

_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*")
_OBJECT_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?")
_RDMA = re.compile(r"rdma/[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
MOST_GPUS = 64


def check_offline(settings: ExistingSettings) -> list[Problem]:
    """Return the errors and warnings that can be found in the stack file alone."""
    return without_echoes(problem for rule in OFFLINE for problem in rule(settings))


def check(settings: ExistingSettings, facts: ClusterFacts) -> list[Problem]:
    """Return all errors and warnings."""
    found = check_offline(settings)
    wrong = {problem.path for problem in found if problem.is_error}  # ignore what the cluster reports about malformed values
    online = (problem for rule in WITH_FACTS for problem in rule(settings, facts))
    found += [problem for problem in online if not any(is_below(path, problem.path) for path in wrong)]
    return without_echoes(found)


# --- the file alone ----------------------------------------------------------------------------------------------------


def kubeconfig(settings: ExistingSettings) -> Iterator[Problem]:
    path = settings.target.kubeconfig.path
    if path is not None and not path.startswith(("/", "~/")):
        yield Problem(
            "target.kubeconfig.path",
            f"{shown(path)} depends on the working directory of `pulumi`. Use an absolute path, or one that starts with ~/",
        )


def selectors(settings: ExistingSettings) -> Iterator[Problem]:
    yield from _selector("target.system.nodeSelector", settings.target.system.node_selector)
    for index, pool in enumerate(settings.pools):
        where = f"pools[{index}].nodeSelector"
        if not pool.node_selector:
            yield Problem(
                where,
                "is empty, which selects every node. Set it to labels that only this pool's nodes have, "
                'such as {example.com/rack: "1"}.',
            )
        yield from _selector(where, pool.node_selector)


def _selector(where: str, selector: Mapping[str, str]) -> Iterator[Problem]:
    for key, value in selector.items():
        yield from labels.syntax(f"{where}.{key}", key, value)


def sizes(settings: ExistingSettings) -> Iterator[Problem]:
    for index, pool in enumerate(settings.pools):
        if pool.nodes < 1:
            yield Problem(f"pools[{index}].nodes", f"{pool.nodes} is too small. Use at least 1, or remove the pool.")
        if not 0 <= pool.gpus_per_node <= MOST_GPUS:
            yield Problem(f"pools[{index}].gpusPerNode", f"{pool.gpus_per_node} is out of range. Use 0 to {MOST_GPUS}.")


def infiniband(settings: ExistingSettings) -> Iterator[Problem]:
    """Check that GPU pools set `rdmaResource` if jobs use InfiniBand, and that no pool sets it otherwise."""
    wanted = settings.platform.transport == "infiniband"
    for index, pool in enumerate(settings.pools):
        where, name = f"pools[{index}].rdmaResource", pool.rdma_resource
        if name is not None and not _RDMA.fullmatch(name):
            yield Problem(where, f"{shown(name)} is not a resource of an RDMA plugin. Use one such as rdma/hca_shared_devices_a.")
        elif name is None and wanted and pool.gpus_per_node:
            fix = "Set a resource that `kubectl describe node` lists, such as rdma/hca_shared_devices_a, or use transport: tcp."
            yield Problem(where, f"is missing, but platform.transport is infiniband. {fix}")
        elif name is not None and not wanted:
            fix = "Set platform.transport: infiniband, or remove it."
            yield warning(where, f"has no effect, because platform.transport is tcp. {fix}")
    if wanted and not any(pool.rdma_resource or pool.gpus_per_node for pool in settings.pools):
        yield Problem("platform.transport", "is infiniband, but no pool has an rdmaResource. Add one to a pool, or use tcp.")


def volume(settings: ExistingSettings) -> Iterator[Problem]:
    wanted = settings.storage
    if settings.mount_path is not None:
        yield from storage.plain_path("storage.mountPath", settings.mount_path)
    if isinstance(wanted, Nfs):
        if not _HOST.fullmatch(wanted.server) and not _is_address(wanted.server):
            yield Problem("storage.server", f"{shown(wanted.server)} is not a host name or IP address. Use one such as 10.0.0.5.")
        path = PurePosixPath(wanted.path)
        if not path.is_absolute() or ".." in path.parts:
            yield Problem(
                "storage.path", f"{shown(wanted.path)} is not an absolute path without `..`. Use one such as /export/jobs."
            )
    if isinstance(wanted, ClassOfStorage):
        if not _OBJECT_NAME.fullmatch(wanted.name):
            yield Problem(
                "storage.name",
                f"{shown(wanted.name)} is not a valid StorageClass name. Use one that `kubectl get storageclass` lists.",
            )
        if _amount(wanted.size) <= 0:
            yield Problem("storage.size", f"{shown(wanted.size)} is not a quantity. Use one such as 100Gi.")


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _amount(text: str) -> int:
    try:
        return bytes_of(text)
    except ValueError:
        return 0


OFFLINE: tuple[Callable[[ExistingSettings], Iterator[Problem]], ...] = (
    names.stack,
    kubeconfig,
    volume,
    names.pools,
    selectors,
    sizes,
    infiniband,
    platform.namespaces,
    platform.cpu_requests,
    platform.image_registry,
    platform.image_repository,
    platform.image_pull_secrets,
    platform.manifest_mirror,
    platform.monitoring,
    jobs.unique,
)


# --- with the cluster --------------------------------------------------------------------------------------------------


def version(settings: ExistingSettings, facts: ClusterFacts) -> Iterator[Problem]:
    oldest = LIVE_KUBERNETES_VERSIONS[0]
    if _number(facts.version) < _number(oldest):
        needs = f"the platform needs {oldest} or newer. Upgrade the cluster."
        yield Problem("target.kubeconfig", f"the cluster at {facts.server} has Kubernetes {facts.version}, but {needs}")


def _number(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:2])


def nodes_for_operators(settings: ExistingSettings, facts: ClusterFacts) -> Iterator[Problem]:
    selector, where = settings.target.system.node_selector, "target.system.nodeSelector"
    if system_nodes(settings, facts):
        return
    tainted = facts.matching(selector)
    if not facts.nodes:
        yield Problem(where, f"the cluster at {facts.server} has no nodes. Join nodes to it (docs/guides/on-premises.md).")
    elif not tainted:
        yield Problem(where, f"no node has {_words(selector)}. Label a node, or remove the key.")
    else:
        fix = "Select other nodes, or remove the taint from one (`kubectl taint nodes NAME KEY-`)."
        yield Problem(where, f"all selected nodes ({_few(node.name for node in tainted)}) have taints. {fix}")


def launchers(settings: ExistingSettings, facts: ClusterFacts) -> Iterator[Problem]:
    """Check that a launcher fits on each node that may run it: otherwise MPI jobs would wait forever."""
    description = describe(settings, facts)
    pool, cpu_millis = description.pool(SYSTEM_POOL), int(LAUNCHER_CPU_MILLIS * settings.platform.cpu_request_factor)
    if pool and pool.max_size and (pool.cpu_millis < cpu_millis or pool.memory_mib < LAUNCHER_MEMORY_MIB):
        needs = f"a launcher needs {cpu_millis}m CPU and {LAUNCHER_MEMORY_MIB} MiB"
        there = f"the smallest selected node has only {pool.cpu_millis}m and {pool.memory_mib} MiB left"
        yield Problem("target.system.nodeSelector", f"{needs}, but {there}. Select larger nodes.")


def nodes_of_pools(settings: ExistingSettings, facts: ClusterFacts) -> Iterator[Problem]:
    """Check that the cluster has enough nodes for each pool, and that no node belongs to two pools."""
    pool_of: dict[str, str] = {}
    for index, pool in enumerate(settings.pools):
        where, found, labels = f"pools[{index}]", facts.matching(pool.node_selector), _words(pool.node_selector)
        if not found:
            command = f"kubectl label nodes NAME {' '.join(f'{key}={value}' for key, value in pool.node_selector.items())}"
            yield Problem(f"{where}.nodeSelector", f"no node of the cluster has {labels}. Label the pool's nodes: {command}")
        elif len(found) < pool.nodes:
            there = f"only {len(found)} ({_few(node.name for node in found)}) of the cluster's nodes have {labels}"
            yield Problem(f"{where}.nodes", f"is {pool.nodes}, but {there}. Set {len(found)}, or join and label more nodes.")
        for node in found:
            if other := pool_of.get(node.name):
                message = f"selects node {node.name}, which {other} also selects. Give the two pools different labels."
                yield Problem(f"{where}.nodeSelector", message)
            pool_of.setdefault(node.name, where)


def gpus(settings: ExistingSettings, facts: ClusterFacts) -> Iterator[Problem]:
    """Check that each node offers at least the expected number of GPUs. If this program installs the device plugin,
    skip nodes where no device plugin has registered yet."""
    for index, pool in enumerate(settings.pools):
        where, wanted = f"pools[{index}].gpusPerNode", pool.gpus_per_node
        nodes = facts.matching(pool.node_selector)
        if without := [node.name for node in nodes if wanted and _offers_none(node, settings)]:
            fix = "Check the driver there with `nvidia-smi`, or remove the label."
            yield Problem(where, f"is {wanted}, but {_few(without)} offers no GPU: the device plugin there finds none. {fix}")
        elif fewer := [node for node in nodes if node.gpus and node.gpus < wanted]:
            offers = f"{fewer[0].name} offers {fewer[0].gpus}"
            yield Problem(where, f"is {wanted}, but {offers}. Set {fewer[0].gpus}, or put that node into its own pool.")
        elif wanted and not settings.platform.device_plugin and (silent := [node.name for node in nodes if node.gpus is None]):
            fix = "Remove platform.devicePlugin: false, or install a device plugin there."
            yield Problem(where, f"is {wanted}, but no device plugin offers GPUs on {_few(silent)}. {fix}")


def rdma(settings: ExistingSettings, facts: ClusterFacts) -> Iterator[Problem]:
    """Check that each node of a pool with InfiniBand offers its RDMA resource. This program does not install an RDMA
    device plugin."""
    for index, pool in enumerate(settings.pools):
        name = pool.rdma_resource
        if not name or settings.platform.transport != "infiniband":
            continue
        nodes = facts.matching(pool.node_selector)
        if without := [node.name for node in nodes if not node.rdma.get(name)]:
            offered = sorted({one for node in nodes for one, amount in node.rdma.items() if amount} - {name})
            hint = did_you_mean(name, offered) or (
                f". Use {one_of(offered)}." if offered else ". Check the RDMA device plugin there."
            )
            yield Problem(f"pools[{index}].rdmaResource", f"is {name}, missing on {_few(without)}{hint}")


def _offers_none(node: Node, settings: ExistingSettings) -> bool:
    """True if the node offers no GPUs, and installing the platform will not change that.

    After a device plugin is removed, a node reports 0 GPUs until its kubelet restarts.
    """
    installs_one = settings.platform.device_plugin
    return not node.gpus and (node.has_plugin or (node.gpus == 0 and not installs_one))


def storage_class(settings: ExistingSettings, facts: ClusterFacts) -> Iterator[Problem]:
    wanted = settings.storage
    if isinstance(wanted, ClassOfStorage) and wanted.name not in facts.storage_classes:
        there = sorted(facts.storage_classes)
        hint = did_you_mean(wanted.name, there) or (
            f". Use {one_of(there)}." if there else ". The cluster has none: install one, or use nfs."
        )
        yield Problem("storage.name", f"{shown(wanted.name)} is not a StorageClass of the cluster{hint}")


def manifests(settings: ExistingSettings, facts: ClusterFacts) -> Iterator[Problem]:
    yield from platform.missing_manifests(facts.manifests)


def jobs_in_cluster(settings: ExistingSettings, facts: ClusterFacts) -> Iterator[Problem]:
    yield from jobs.against(settings, describe(settings, facts))


WITH_FACTS: tuple[Callable[[ExistingSettings, ClusterFacts], Iterator[Problem]], ...] = (
    version,
    nodes_for_operators,
    launchers,
    nodes_of_pools,
    gpus,
    rdma,
    storage_class,
    manifests,
    jobs_in_cluster,
)


def unsaid_gpus(settings: ExistingSettings, facts: ClusterFacts) -> list[str]:
    """Return the nodes of GPU pools that offer no GPUs because no device plugin has registered there yet."""
    pools = [pool for pool in settings.pools if pool.gpus_per_node]
    nodes = [node for pool in pools for node in facts.matching(pool.node_selector)]
    return [node.name for node in nodes if not node.gpus and not node.has_plugin]


def _words(selector: Mapping[str, str]) -> str:
    return f"the label{'' if len(selector) == 1 else 's'} {all_of(f'{key}={value}' for key, value in selector.items())}"


def _few(found: Iterator[str] | list[str]) -> str:
    """Join the first three names, and count the others."""
    known = list(found)
    return all_of(known) if len(known) <= 3 else f"{', '.join(known[:3])} and {len(known) - 3} more"
