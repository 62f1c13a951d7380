"""Rules for pool sizes."""

from collections.abc import Iterator

from infra.config.problems import Problem
from infra.settings.pools import Pool
from infra.settings.stack import Settings
from infra.settings.targets import SystemPool
from infra.validation.pool_paths import pools_with_paths


def system(settings: Settings) -> Iterator[Problem]:
    path, pool = "target.system", settings.eks.system
    if pool.min_size < 1:
        yield Problem(f"{path}.minSize", f"{pool.min_size} leaves no node for the cluster's own pods. Use at least 1.")
    yield from _in_order(path, pool)


def pools(settings: Settings) -> Iterator[Problem]:
    for path, pool in pools_with_paths(settings):
        if pool.min_size < 0:
            yield Problem(f"{path}.minSize", f"{pool.min_size} is below 0. Use 0 or more.")
        if pool.max_size < 1:
            yield Problem(f"{path}.maxSize", f"{pool.max_size} allows no nodes. Use at least 1 (minSize 0 scales to zero).")
        else:
            yield from _in_order(path, pool)


def _in_order(path: str, pool: Pool | SystemPool) -> Iterator[Problem]:
    if pool.min_size > pool.max_size:
        yield Problem(
            f"{path}.minSize", f"{pool.min_size} is above maxSize, which is {pool.max_size}. Lower it, or raise maxSize."
        )
    elif not pool.min_size <= pool.initial_size <= pool.max_size:
        fitting = f"{pool.min_size} to {pool.max_size}" if pool.min_size < pool.max_size else str(pool.min_size)
        fix = f"Use {fitting}, or change minSize or maxSize."
        yield Problem(f"{path}.desiredSize", f"{pool.initial_size} is not between minSize and maxSize. {fix}")
