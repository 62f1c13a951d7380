"""Choose the EKS pools that acceptance uses, and compute how many nodes acceptance starts in each. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cli.clusters.status.cluster_status import PoolStatus
from cli.jobs import pool_choice
from infra.jobs.cluster import ClusterDescription, PoolDescription

WORKERS = 2


@dataclass(frozen=True)
class Choice:
    """The pools of a run."""

    smoke: PoolDescription
    """Pool of the smoke test and of the job that loses a worker."""
    workers: int
    scale: PoolDescription | None
    """Pool to scale from zero; None if no pool can be scaled to zero."""

    def starts(self, there: Mapping[str, int]) -> list[tuple[PoolDescription, int]]:
        """Return how many nodes the run may add to each pool, given the number of ready nodes."""
        most = [(self.smoke, self.workers)]
        if self.scale is not None and self.scale.name != self.smoke.name:
            most.append((self.scale, 1))
        return [(pool, number - there.get(pool.name, 0)) for pool, number in most if number > there.get(pool.name, 0)]

    def sentences(self, there: Mapping[str, int]) -> list[str]:
        """Return sentences about the nodes that the run starts and removes."""
        found = [f"{number} x {pool.instance_type} in pool {pool.name}" for pool, number in self.starts(there)]
        text = [f"starts {', '.join(found)}; the autoscaler removes them again"] if found else ["starts no nodes"]
        if self.scale is not None and there.get(self.scale.name, 0):
            text.append(f"waits until the autoscaler has removed the nodes of pool {self.scale.name}, then adds one again")
        return text


def choose(
    described: ClusterDescription,
    there: Mapping[str, int],
    in_aws: Mapping[str, PoolStatus],
    *,
    pool: str | None = None,
    scale_pool: str | None = None,
) -> Choice:
    """Return the pools to use. Prefers pools whose nodes already run, because each new node costs money."""
    compute = [one for one in described.pools if one.name != described.launcher_pool] or list(described.pools)
    smoke = pool_choice.named(pool, compute) if pool else _smoke_pool(compute, there)
    scale = pool_choice.named(scale_pool, compute) if scale_pool else _scale_pool(compute, in_aws)
    return Choice(smoke, min(WORKERS, smoke.max_size), scale)


def _smoke_pool(pools: Sequence[PoolDescription], there: Mapping[str, int]) -> PoolDescription:
    """Return the best pool. Prefer pools with GPUs, then pools with enough running nodes, then pools with room for two
    nodes. If several pools are equal, return the first one in the stack file.
    """

    def rank(pool: PoolDescription) -> tuple[bool, bool, bool]:
        return not pool.gpus, there.get(pool.name, 0) < WORKERS, pool.max_size < WORKERS

    return min(pools, key=rank)


def _scale_pool(pools: Sequence[PoolDescription], in_aws: Mapping[str, PoolStatus]) -> PoolDescription | None:
    """Return an empty pool or, if there is none, a pool that may be scaled to zero."""
    can = [one for one in pools if one.max_size and (found := in_aws.get(one.name)) and found.minimum == 0]
    return next((one for one in can if not in_aws[one.name].wanted), can[0] if can else None)
