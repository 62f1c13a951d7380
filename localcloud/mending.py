"""Finds dead parts of a running local cloud, and restarts them without losing the account or the clusters' objects."""

from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

from localcloud.instance import LocalCloud
from localcloud.kubernetes import loopback
from localcloud.kubernetes.control_plane import DAEMONS
from localcloud.kubernetes.state import ClusterState
from localcloud.processes import StartError

LIMIT_SECONDS = 300.0
CONTROL_PLANE = (*DAEMONS, loopback.NAME)


def dead_parts(cloud: LocalCloud) -> list[str]:
    """Return the dead processes of all clusters, such as `etcd of cluster gpumpi-local`."""
    return [part for cluster in cloud.clusters() for part in _dead(cluster)]


def dead_parts_behind(cloud: LocalCloud, endpoint: str, *, nodes: bool) -> list[str]:
    """Return the dead processes that serve the cluster with this endpoint; with `nodes`, also those of its nodes."""
    served = [cluster for cluster in cloud.clusters() if cluster.endpoint == endpoint]
    dead = [part for cluster in served for part in _dead(cluster) if nodes or part.split()[0] in CONTROL_PLANE]
    # The API servers use the local AWS to authenticate users.
    return [*(f"server {one.name}" for one in cloud.crashed() if served and one.name == "aws"), *dead]


def _dead(cluster: ClusterState) -> list[str]:
    """Return the dead processes of a cluster; none if the cluster did not start or is stopping."""
    return [f"{crash.name} of cluster {cluster.name}" for crash in cluster.crashes] if cluster.phase == "ready" else []


def restart(cloud: LocalCloud) -> list[str]:
    """Restart the dead processes and return them. Raises StartError if one cannot be restarted."""
    dead = dead_parts(cloud)
    if not dead:
        return []
    before = {(one.region, one.name): one.repairs for one in cloud.clusters() if _dead(one)}
    cloud.control().post("kubernetes/restart-crashed", {})

    def is_waiting() -> bool:
        now = {(one.region, one.name): one.repairs for one in cloud.clusters()}
        return any(now.get(key, repairs + 1) <= repairs for key, repairs in before.items())

    try:
        Retrying(retry=retry_if_result(bool), wait=wait_fixed(0.1), stop=stop_after_delay(LIMIT_SECONDS))(is_waiting)
    except RetryError:
        raise StartError(f"not restarted within {LIMIT_SECONDS:.0f} s: {', '.join(dead)}") from None
    if problems := [text for one in cloud.clusters() for text in (one.problem, *map(str, one.crashes)) if text]:
        raise StartError("\n".join(problems))
    return dead
