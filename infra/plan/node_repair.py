"""Decide which broken nodes EKS repairs, and which nodes EKS leaves to the job controller."""

from infra.health import faults
from infra.health.faults import RepairOverride
from infra.settings.pools import Pool
from infra.settings.stack import Settings


def overrides(pool: Pool, gpus: int, settings: Settings) -> tuple[RepairOverride, ...]:
    """Return the faults that EKS must not repair.

    The job controller moves all jobs off a node with a broken GPU at once, and the autoscaler then removes the node. If
    nothing would remove the node, EKS repairs it after its usual wait.
    """
    platform = settings.platform
    empties = platform.node_healing and settings.installs_platform
    removes = platform.autoscaler and pool.min_size == 0
    return faults.list_repair_overrides() if gpus and platform.node_repair and empties and removes else ()
