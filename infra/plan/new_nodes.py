"""Nodes that a stack still needs, which count against the account's quotas. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from infra.facts.model import Facts
from infra.plan.eks_pools import SYSTEM_ROOT_VOLUME_GIB
from infra.plan.placement import desired_size
from infra.settings.pools import Pool
from infra.settings.stack import Settings
from infra.settings.targets import SystemPool


@dataclass(frozen=True)
class NewNodes:
    """Nodes that a pool does not have yet."""

    pool: Pool | SystemPool
    now: int
    """Number of nodes when the pool has the size that `pulumi up` sets. EC2 clusters keep their current size."""
    maximum: int
    """Number of nodes when the pool has its maximum size."""


def new_nodes(settings: Settings, facts: Facts) -> Iterator[NewNodes]:
    """Yield each pool with the nodes that it still needs. The head node of an EC2 cluster belongs to no pool."""
    for pool in (*settings.pools, *((settings.eks.system,) if settings.is_eks else ())):
        known = facts.existing.pools.get(pool.name)
        kept = known.desired_size if known and not settings.is_eks else None
        size = desired_size(pool, settings, facts).size if kept is None else kept
        has = known.desired_size if known and not known.failed else 0
        yield NewNodes(pool, max(0, size - has), max(0, pool.max_size - has))


def new_volume_gib(settings: Settings, facts: Facts) -> tuple[int, int]:
    """Return the size in GiB of the new nodes' root volumes, at the pools' sizes and at their maximum sizes."""
    now = maximum = 0
    for one in new_nodes(settings, facts):
        gib = one.pool.root_volume_gib if isinstance(one.pool, Pool) else SYSTEM_ROOT_VOLUME_GIB
        now, maximum = now + one.now * gib, maximum + one.maximum * gib
    head = settings.pools[0].root_volume_gib if not settings.is_eks and not facts.existing.pools and settings.pools else 0
    return now + head, maximum + head
