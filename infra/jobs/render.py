"""Places a job in its cluster, and renders it as Kubernetes objects in creation order."""

from collections.abc import Callable, Mapping
from typing import Final

from infra.jobs import key_exchange
from infra.jobs.cluster import ClusterDescription, NamespaceDescription
from infra.jobs.launchers.mpijob import MpiJobLauncher
from infra.jobs.launchers.standalone import StandaloneLauncher
from infra.jobs.launchers.torchrun import TorchrunLauncher
from infra.jobs.model import Job
from infra.jobs.placed import KeyPair, Launcher, Manifest, PlacedJob
from infra.jobs.setup import build_setup_job
from infra.jobs.sizing import compute_worker_size

LAUNCHERS: Final[Mapping[str, Launcher]] = {
    launcher.name: launcher for launcher in (MpiJobLauncher(), StandaloneLauncher(), TorchrunLauncher())
}


def place_job(job: Job, cluster: ClusterDescription) -> PlacedJob:
    """Look up the job's pool, namespace and launcher. Raises LookupError for an unknown pool, which validation should
    have rejected."""
    pool = cluster.pool(job.pool)
    if pool is None:
        raise LookupError(f"there is no pool {job.pool}")
    namespace = cluster.namespace(job.namespace) or NamespaceDescription(name=job.namespace or "")
    size = compute_worker_size(job, pool)
    if pool.efa and not size.efa:  # MPI and NCCL configured for EFA would fail without an EFA interface
        pool = pool.model_copy(update={"transport": "tcp", "nccl": "tcp"})
    launcher_pool = cluster.pool(cluster.launcher_pool) or pool
    return PlacedJob(job, cluster, pool, launcher_pool, namespace, size, LAUNCHERS[job.launcher])


def render_job(placed: PlacedJob, generate_keys: Callable[[], KeyPair] = key_exchange.generate_key_pair) -> list[Manifest]:
    """Return the objects of a job: the main object first, which owns the others."""
    main, *owned = placed.launcher.build(placed, generate_keys)
    setup = [build_setup_job(placed)] if placed.job.setup else []
    return [main, *setup, *owned]


def remove_time_to_live(job: Job) -> Job:
    """Return a job of a stack, which stays until it is removed from the stack file."""
    return job.model_copy(update={"ttl_seconds_after_finished": None})
