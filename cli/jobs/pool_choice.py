"""Find a pool by the name that the user passes on the command line."""

from collections.abc import Sequence

from cli.errors import NotFound
from infra.config.messages import did_you_mean
from infra.jobs.cluster import PoolDescription


def named(name: str, pools: Sequence[PoolDescription]) -> PoolDescription:
    """Return the pool with this name. Raises NotFound if there is none."""
    found = next((one for one in pools if one.name == name), None)
    if found is None:
        raise NotFound(f"there is no pool {name}{did_you_mean(name, [one.name for one in pools])}")
    return found
