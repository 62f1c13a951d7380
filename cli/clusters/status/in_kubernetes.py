"""Read the part of a status that needs only a kubeconfig.

Failed queries do not end the verb: the status lists them.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from cli.clusters.allowed_namespaces import describe_limit
from cli.clusters.kubernetes_access import Cluster
from cli.clusters.status.cluster_status import JobLine, PoolStatus, QueueStatus, Status, VolumeStatus
from cli.clusters.status.node_rows import derive_pool_status, derive_queue_status, derive_volume_statuses
from cli.errors import CommandError, Forbidden
from cli.jobs import objects
from cli.jobs.state import JobState
from cli.jobs.waits import Waits
from infra.jobs import files
from infra.jobs.cluster import ClusterDescription

Answer = TypeVar("Answer")
NO_PODS: Final = "GPUs in use: you may not list the pods of all namespaces"
"""Job users may read only the pods of their namespaces."""


def read_status(cluster: Cluster, namespace: str | None = None) -> Status:
    """Return the status. If `namespace` is given, list only its jobs, queue and volumes. Raises CommandError."""
    described = cluster.description()
    queries = _Queries(cluster, described, namespace)
    pools, jobs = queries.pools(), queries.jobs()
    return Status(
        cluster=described.cluster,
        version=cluster.version().removeprefix("v"),
        address=cluster.server,
        pools=tuple(pools),
        queues=tuple(queries.queues()),
        jobs=tuple(queries.build_job_lines([state for state in jobs if not state.is_over])),
        ended=dict(sorted(Counter(str(state.phase) for state in jobs if state.is_over).items())),
        volumes=tuple(queries.volumes()),
        unknown=tuple(dict.fromkeys(queries.unknown)),
    )


class _Queries:
    """Queries to one cluster. Records the error of each failed query."""

    def __init__(self, cluster: Cluster, described: ClusterDescription, namespace: str | None) -> None:
        self._cluster, self._described = cluster, described
        own = [space for space in described.namespaces if namespace in (None, space.name)]
        self._namespaces = [space.name for space in own] or ([namespace] if namespace else [])
        self._own = own
        self.unknown: list[str] = []
        self._waits = Waits(cluster, self.unknown.append)

    def pools(self) -> list[PoolStatus]:
        nodes = self._query_cluster(partial(self._cluster.list, "Node"))
        if nodes is None:
            return [PoolStatus(pool.name, pool.instance_type, max_size=pool.max_size) for pool in self._described.pools]
        pods = self._query_cluster(partial(self._cluster.list, "Pod"), message_if_forbidden=NO_PODS)
        return [derive_pool_status(pool, nodes, pods) for pool in self._described.pools]

    def queues(self) -> list[QueueStatus]:
        statuses = []
        for space in self._own:
            if space.queue is None:
                continue
            workloads = self._query_cluster(partial(self._cluster.list, "Workload", space.name))
            helpers = self._query_cluster(partial(self._cluster.list, "Job", space.name, files.SELECTOR))
            if workloads is not None:
                statuses.append(derive_queue_status(space.name, space.queue, workloads, helpers or ()))
        return statuses

    def volumes(self) -> list[VolumeStatus]:
        statuses = []
        for namespace in self._own:
            claims = self._query_cluster(partial(self._cluster.list, "PersistentVolumeClaim", namespace.name))
            statuses += derive_volume_statuses(namespace, claims)
        return statuses

    def jobs(self) -> list[JobState]:
        """Return the jobs, oldest first. If the caller may list the jobs of some namespaces only, one sentence names
        these, and the other namespaces are left out of the status."""
        states: list[JobState] = []
        refused: dict[str, str] = {}
        for name in self._namespaces:
            try:
                states += objects.list_jobs(self._cluster, name)
            except Forbidden as error:
                refused[name] = str(error)
            except CommandError as error:
                self.unknown.append(str(error))
        allowed = [name for name in self._namespaces if name not in refused]
        if allowed:
            self._own = [space for space in self._own if space.name in allowed]
        if refused:
            self.unknown += [describe_limit(allowed)] if allowed else list(refused.values())
        return sorted(states, key=lambda state: state.created)

    def build_job_lines(self, states: Sequence[JobState]) -> list[JobLine]:
        return [JobLine(state, self._waits.reason(state)) for state in states]

    def _query_cluster(self, query: Callable[[], Answer], message_if_forbidden: str = "") -> Answer | None:
        """Return the answer; None if there is none. `message_if_forbidden` replaces the error for callers without
        permission."""
        try:
            return query()
        except CommandError as error:
            self.unknown.append(message_if_forbidden if message_if_forbidden and isinstance(error, Forbidden) else str(error))
            return None
