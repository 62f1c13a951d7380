"""Find a pool by the name that the user passes on the command line."""

from collections.abc import Sequence

from cli.errors import NotFound
from infra.config.messages import did_you_mean
from infra.jobs.cluster import PoolDescription


def named(name: str, pools: Sequence[PoolDescription]) -> PoolDescription:
    """Return the pool with this name. Raises NotFound if there is none."""
    choice = next((pool for pool in pools if pool.name == name), None)
    if choice is None:
        raise NotFound(f"there is no pool {name}{did_you_mean(name, [pool.name for pool in pools])}")
    return choice
