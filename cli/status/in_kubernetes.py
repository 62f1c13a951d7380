"""The part of a status that a kubeconfig is enough for. What one may not read is said, and the rest goes on."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from cli import job_objects
from cli.cluster_access import Cluster, Failed, Object
from cli.job_state import JobState, waits_for
from cli.status.model import JobLine, PoolStatus, QueueStatus, Status, VolumeStatus
from cli.status.nodes import pool_status, queue_status, volume_statuses
from infra.jobs.cluster import ClusterDescription
from infra.naming import JOB_LABEL

Answer = TypeVar("Answer")


def read(cluster: Cluster, namespace: str | None = None) -> Status:
    """One look. Raises Failed where nothing can be asked; with a namespace, only its jobs, queue and volumes."""
    described = cluster.description()
    look = _Look(cluster, described, namespace)
    pools, jobs = look.pools(), look.jobs()
    return Status(
        cluster=described.cluster,
        version=cluster.version().removeprefix("v"),
        address=cluster.server,
        pools=tuple(pools),
        queues=tuple(look.queues()),
        jobs=tuple(look.lines([state for state in jobs if not state.is_over])),
        ended=dict(sorted(Counter(str(state.phase) for state in jobs if state.is_over).items())),
        volumes=tuple(look.volumes()),
        unknown=tuple(dict.fromkeys(look.unknown)),
    )


class _Look:
    """Questions to one cluster, and which of them it did not answer."""

    def __init__(self, cluster: Cluster, described: ClusterDescription, namespace: str | None) -> None:
        self._cluster, self._described = cluster, described
        own = [one for one in described.namespaces if namespace in (None, one.name)]
        self._namespaces = [one.name for one in own] or ([namespace] if namespace else [])
        self._own = own
        self._pods: dict[str, list[Object]] = {}
        self._workloads: dict[str, list[Object]] = {}
        self.unknown: list[str] = []

    def pools(self) -> list[PoolStatus]:
        nodes = self._asked(partial(self._cluster.list, "Node"))
        if nodes is None:
            return [PoolStatus(one.name, one.instance_type, maximum=one.max_size) for one in self._described.pools]
        pods = self._asked(partial(self._cluster.list, "Pod"))
        return [pool_status(pool, nodes, pods) for pool in self._described.pools]

    def queues(self) -> list[QueueStatus]:
        named = [one.name for one in self._own if one.queue]
        found = [self._asked(partial(self._cluster.list, "LocalQueue", name)) for name in named]
        return [queue_status(one) for queues in found for one in queues or ()]

    def volumes(self) -> list[VolumeStatus]:
        found = []
        for namespace in self._own:
            claims = self._asked(partial(self._cluster.list, "PersistentVolumeClaim", namespace.name))
            found += volume_statuses(namespace, claims)
        return found

    def jobs(self) -> list[JobState]:
        """The newest last: who came first is told first."""
        found = []
        for name in self._namespaces:
            found += self._asked(partial(job_objects.all_jobs, self._cluster, name)) or []
        return sorted(found, key=lambda state: state.created)

    def lines(self, states: Sequence[JobState]) -> list[JobLine]:
        return [JobLine(state, self._waits_for(state)) for state in states]

    def _waits_for(self, state: JobState) -> str:
        if state.namespace not in self._pods:
            self._pods[state.namespace] = self._asked(partial(self._cluster.list, "Pod", state.namespace)) or []
        if state.phase == "Queued" and state.namespace not in self._workloads:
            found = self._asked(partial(self._cluster.list, "Workload", state.namespace))
            self._workloads[state.namespace] = found or []
        own = [one for one in self._pods[state.namespace] if _job_of(one) == state.name]
        held = [one for one in self._workloads.get(state.namespace, ()) if job_objects.is_of(one, state)]
        return waits_for(state, own, held[0] if held else None)

    def _asked(self, question: Callable[[], Answer]) -> Answer | None:
        try:
            return question()
        except Failed as error:
            self.unknown.append(str(error))
            return None


def _job_of(pod: Object) -> str:
    labels = pod["metadata"].get("labels", {})
    return str(labels.get(JOB_LABEL) or labels.get("training.kubeflow.org/job-name", ""))
