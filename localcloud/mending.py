"""Find crashed processes of a running local cloud, and restart them. The AWS account and the clusters' objects are
kept."""

from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

from localcloud.instance import LocalCloud
from localcloud.kubernetes import loopback
from localcloud.kubernetes.control_plane import DAEMONS
from localcloud.kubernetes.state import ClusterState
from localcloud.processes import StartError

LIMIT_SECONDS = 300.0
CONTROL_PLANE = (*DAEMONS, loopback.NAME)


def list_crashed_processes(cloud: LocalCloud) -> list[str]:
    """Return the crashed processes of all clusters, such as `etcd of cluster gpumpi-local`."""
    return [part for cluster in cloud.clusters() for part in _list_cluster_crashes(cluster)]


def list_crashed_dependencies(cloud: LocalCloud, endpoint: str, *, nodes: bool) -> list[str]:
    """Return the crashed processes on which the cluster with this API endpoint depends. With `nodes`, include the
    processes of the cluster's nodes."""
    served = [cluster for cluster in cloud.clusters() if cluster.endpoint == endpoint]
    dead = [part for cluster in served for part in _list_cluster_crashes(cluster) if nodes or part.split()[0] in CONTROL_PLANE]
    # The API servers use the local AWS to authenticate users, so a crash of the server `aws` counts too.
    return [*(f"server {server.name}" for server in cloud.list_crashed_servers() if served and server.name == "aws"), *dead]


def _list_cluster_crashes(cluster: ClusterState) -> list[str]:
    """Return the crashed processes of a cluster, or an empty list if the cluster is not ready."""
    return [f"{crash.name} of cluster {cluster.name}" for crash in cluster.crashes] if cluster.phase == "ready" else []


def restart_crashed_processes(cloud: LocalCloud) -> list[str]:
    """Restart the crashed processes and return them. Raises StartError if any of them cannot be restarted."""
    dead = list_crashed_processes(cloud)
    if not dead:
        return []
    before = {(cluster.region, cluster.name): cluster.repairs for cluster in cloud.clusters() if _list_cluster_crashes(cluster)}
    cloud.control().post("kubernetes/restart-crashed", {})

    def is_repair_pending() -> bool:
        now = {(cluster.region, cluster.name): cluster.repairs for cluster in cloud.clusters()}
        return any(now.get(key, repairs + 1) <= repairs for key, repairs in before.items())

    try:
        Retrying(retry=retry_if_result(bool), wait=wait_fixed(0.1), stop=stop_after_delay(LIMIT_SECONDS))(is_repair_pending)
    except RetryError:
        raise StartError(f"not restarted within {LIMIT_SECONDS:.0f} s: {', '.join(dead)}") from None
    if problems := [text for cluster in cloud.clusters() for text in (cluster.problem, *map(str, cluster.crashes)) if text]:
        raise StartError("\n".join(problems))
    return dead
