"""The jobs of the cluster, assembled from local copies of its Kubernetes objects."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from infra.health import documents
from infra.naming import JOB_LABEL, LAUNCHER_LABEL, MPI_JOB_LABEL, QUEUE_GROUP, RECORD_LABEL, ROLE_LABEL

from .api import Api, ApiError, Object, build_resource_path
from .health import Heart
from .job import ManagedJob, read_job_name, read_labels
from .mirror import Mirror, Trim
from .store import trim_config_map
from .trims import trim_job, trim_node, trim_pod, trim_workload

NODE_LEASES = "apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"

KINDS: Mapping[str, tuple[str, str, Trim]] = {
    "MPIJob": ("apis/kubeflow.org/v2beta1/namespaces/{}/mpijobs", "", trim_job),
    "Job": ("apis/batch/v1/namespaces/{}/jobs", "", trim_job),
    "StatefulSet": ("apis/apps/v1/namespaces/{}/statefulsets", f"{ROLE_LABEL}=workers", trim_job),
    "Pod": ("api/v1/namespaces/{}/pods", "", trim_pod),
    "ConfigMap": ("api/v1/namespaces/{}/configmaps", RECORD_LABEL, trim_config_map),
    "Workload": (f"apis/{QUEUE_GROUP}/v1beta2/namespaces/{{}}/workloads", "", trim_workload),
}
"""API path, label selector and trimmed form of each mirrored kind of a job namespace."""


class Cluster:
    """Mirrors of all job namespaces and of the nodes."""

    def __init__(self, api: Api, namespaces: Sequence[str], changed: Callable[[], None]) -> None:
        self._nodes = Mirror(api, "api/v1/nodes", "Node", changed, trim_node)
        self._mirrors = {
            (namespace, kind): Mirror(api, build_resource_path(path, namespace), kind, changed, trim, selector)
            for namespace in namespaces
            for kind, (path, selector, trim) in KINDS.items()
        }
        self.namespaces = tuple(namespaces)

    def start(self) -> list[Heart]:
        """Start the mirrors, and return their heartbeats."""
        for mirror in (self._nodes, *self._mirrors.values()):
            mirror.start()
        return [mirror.heart for mirror in (self._nodes, *self._mirrors.values())]

    def is_synced(self, namespace: str) -> bool:
        """Return whether the copies of the namespace's objects and of the nodes are up to date."""
        mirrors = (self._nodes, *(self._mirrors[namespace, kind] for kind in KINDS))
        return all(mirror.is_synced.is_set() for mirror in mirrors)

    @property
    def has_read_nodes(self) -> bool:
        """Whether the nodes, and all pods that the controller may read, have been read."""
        pods = [self._mirrors[namespace, "Pod"] for namespace in self.namespaces]
        return self._nodes.is_synced.is_set() and all(mirror.is_synced.is_set() or mirror.is_refused for mirror in pods)

    def records(self, namespace: str) -> list[Object]:
        return self._mirrors[namespace, "ConfigMap"].objects()

    def nodes(self) -> list[Object]:
        return self._nodes.objects()

    def pods(self) -> list[Object]:
        """Return the pods in the job namespaces, whatever tool created them."""
        return [pod for namespace in self.namespaces for pod in self._mirrors[namespace, "Pod"].objects()]

    def jobs(self, namespace: str) -> list[ManagedJob]:
        nodes = {node["metadata"]["name"]: node for node in self.nodes()}
        return assemble_jobs({kind: self._mirrors[namespace, kind].objects() for kind in KINDS}, nodes)


def assemble_jobs(by_kind: Mapping[str, Sequence[Object]], nodes: Mapping[str, Object]) -> list[ManagedJob]:
    """Assemble the jobs of one namespace from its objects, which are grouped by kind."""
    pods_of, sets_of = _group_by_job(by_kind["Pod"]), _group_by_job(by_kind["StatefulSet"])
    children = _group_by_owner(by_kind["Job"])
    workloads = _group_by_owner(by_kind.get("Workload", ()))
    unowned = [child for child in by_kind["Job"] if not child["metadata"].get("ownerReferences")]
    setups = _group_by_job(child for child in unowned if read_labels(child).get(ROLE_LABEL) == "setup")
    mains = [
        *by_kind["MPIJob"],
        *(
            child
            for child in by_kind["Job"]
            if read_labels(child).get(ROLE_LABEL) == "job" and LAUNCHER_LABEL in read_labels(child)
        ),
    ]
    jobs = []
    for main in mains:
        name, uid = read_job_name(main), main["metadata"]["uid"]
        workers_set = max(sets_of[name], key=_read_creation_time, default=None)
        # The objects of a stack's job may exist before its main object. Objects older than the main object belong to
        # an earlier job.
        began = min(map(_read_creation_time, (main, *([workers_set] if workers_set else []))))
        owned = [*children[uid], *setups[name]]
        jobs.append(
            ManagedJob(
                main,
                [pod for pod in pods_of[name] if _read_creation_time(pod) >= began],
                next((child for child in owned if child["metadata"]["name"] == f"{name}-launcher"), None),
                next((child for child in owned if read_labels(child).get(ROLE_LABEL) == "setup"), None),
                workers_set,
                nodes,
                next(iter(workloads[uid]), None),
            )
        )
    return jobs


def _read_creation_time(item: Object) -> str:
    return str(item["metadata"]["creationTimestamp"])


def _group_by_owner(objects: Iterable[Object]) -> Mapping[str, list[Object]]:
    by_owner = defaultdict(list)
    for item in objects:
        for owner in item["metadata"].get("ownerReferences") or ():
            by_owner[owner["uid"]].append(item)
    return by_owner


def _group_by_job(objects: Iterable[Object]) -> Mapping[str, list[Object]]:
    by_job = defaultdict(list)
    for item in objects:
        by_job[read_labels(item).get(JOB_LABEL) or read_labels(item).get(MPI_JOB_LABEL, "")].append(item)
    return by_job


def read_leases(api: Api) -> Mapping[str, str]:
    """Return when each node's kubelet last renewed its lease; empty without permission to read leases. Kubelets can
    write any time into their leases."""
    try:
        listed = api.call("GET", NODE_LEASES).get("items") or []
    except ApiError:
        return {}
    times = {lease["metadata"]["name"]: (lease.get("spec") or {}).get("renewTime") for lease in listed}
    return {name: str(at) for name, at in times.items() if documents.is_time(at)}
