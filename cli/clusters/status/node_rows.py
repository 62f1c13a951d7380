"""Count nodes, pods, claims and queued workloads. All functions are pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from cli.clusters.status.cluster_status import PoolStatus, QueueStatus, VolumeStatus
from cli.jobs.foreign_jobs import has_true_condition
from infra.health.repairs import parse_quantity
from infra.jobs.cluster import NamespaceDescription, PoolDescription
from infra.naming import GPU_RESOURCE

Object = Mapping[str, Any]


def derive_pool_status(pool: PoolDescription, nodes: Sequence[Object], pods: Sequence[Object] | None) -> PoolStatus:
    """Derive a pool's status from its nodes. Without `pods`, the number of GPUs in use is unknown."""
    own = [node for node in nodes if _matches_selector(node, pool.node_selector)]
    ready = [node for node in own if is_ready(node)]
    accepting = [node for node in ready if not _find_foreign_taints(pool, node)]
    used = Counter[str]()
    for pod in pods or ():
        used[pod["spec"].get("nodeName", "")] += _count_gpus_held(pod)
    closed = {_get_node_name(node) for node in own} - {_get_node_name(node) for node in accepting}
    offered = sum(_count_allocatable_gpus(node) for node in accepting) + sum(used[name] for name in closed)
    return PoolStatus(
        name=pool.name,
        instance_type=pool.instance_type,
        ready=len(ready),
        nodes=len(own),
        max_size=pool.max_size,
        gpus=offered if pool.gpus else 0,
        gpus_used=(None if pods is None else sum(used[_get_node_name(node)] for node in own)) if pool.gpus else 0,
        problems=tuple(_find_node_problems(pool, ready)),
    )


def is_ready(node: Object) -> bool:
    return has_true_condition(node, "Ready")


def _matches_selector(node: Object, selector: Mapping[str, str]) -> bool:
    labels = node["metadata"].get("labels", {})
    return bool(selector) and all(labels.get(key) == value for key, value in selector.items())


def _find_node_problems(pool: PoolDescription, ready: Sequence[Object]) -> list[str]:
    """Describe ready nodes that accept no jobs or have fewer GPUs than expected."""
    taints = Counter(key for node in ready for key in _find_foreign_taints(pool, node))
    problems = [f"{_format_node_count(number)} no jobs: taint {key}" for key, number in sorted(taints.items())]
    short = [node for node in ready if _count_allocatable_gpus(node) < pool.gpus]
    if short:
        name = short[0]["metadata"]["name"]
        problems.append(f"ready nodes with fewer than {pool.gpus} GPUs: {len(short)}, such as {name}; check its device plugin")
    return problems


def _find_foreign_taints(pool: PoolDescription, node: Object) -> list[str]:
    """Return the keys of taints that jobs on the pool do not tolerate, such as those of cordoned or simulated nodes."""
    expected = {taint.key for taint in pool.taints}
    taints = node["spec"].get("taints", ())
    return [taint["key"] for taint in taints if taint["effect"] != "PreferNoSchedule" and taint["key"] not in expected]


def _count_allocatable_gpus(node: Object) -> int:
    return parse_quantity(node["status"].get("allocatable", {}).get(GPU_RESOURCE, 0))


def _get_node_name(node: Object) -> str:
    return str(node["metadata"]["name"])


def _format_node_count(number: int) -> str:
    return "1 node accepts" if number == 1 else f"{number} nodes accept"


def _count_gpus_held(pod: Object) -> int:
    """Count the GPUs that a pod holds in the same way as the scheduler. A pod that has ended holds none.

    The result is the sum over the containers or the largest number for an init container, whichever is greater.
    """
    if pod["status"].get("phase") in ("Succeeded", "Failed"):
        return 0
    spec = pod["spec"]
    first = max((_count_container_gpus(container) for container in spec.get("initContainers", ())), default=0)
    return max(first, sum(_count_container_gpus(container) for container in spec["containers"]))


def _count_container_gpus(container: Object) -> int:
    resources = container.get("resources", {})
    return parse_quantity(resources.get("requests", {}).get(GPU_RESOURCE) or resources.get("limits", {}).get(GPU_RESOURCE) or 0)


def derive_queue_status(namespace: str, queue: str, workloads: Sequence[Object], helpers: Sequence[Object]) -> QueueStatus:
    """Count the workloads of jobs in a queue. Workloads of pods that only transfer files do not count."""
    ours = {str(helper["metadata"]["uid"]) for helper in helpers}
    owners = [{str(owner["uid"]) for owner in work["metadata"].get("ownerReferences", ())} for work in workloads]
    queued = [work for work, uids in zip(workloads, owners, strict=True) if not ours & uids]
    jobs = [work for work in queued if work["spec"].get("queueName") == queue]
    open_ = [job for job in jobs if job["spec"].get("active", True) and not has_true_condition(job, "Finished")]
    admitted = sum(has_true_condition(job, "QuotaReserved") for job in open_)
    return QueueStatus(namespace, queue, admitted, len(open_) - admitted)


def derive_volume_statuses(namespace: NamespaceDescription, claims: Sequence[Object] | None) -> list[VolumeStatus]:
    """Return the volumes that jobs of a namespace may use. The phase of a nonexistent claim is `Missing`."""
    phases = None if claims is None else {claim["metadata"]["name"]: claim["status"].get("phase", "") for claim in claims}
    return [
        VolumeStatus(
            spec.name, spec.mount_path, namespace.name, spec.claim, "" if phases is None else phases.get(spec.claim, "Missing")
        )
        for spec in namespace.volumes
    ]
