"""Paths of pools in the stack file, for messages."""

from collections.abc import Iterator

from infra.facts.instance_types import InstanceType
from infra.facts.model import Facts
from infra.settings.pools import Pool
from infra.settings.stack import Settings


def list_pools_with_paths(settings: Settings) -> Iterator[tuple[str, Pool]]:
    for index, pool in enumerate(settings.pools):
        yield f"pools[{index}]", pool


def list_pools_with_types(settings: Settings, facts: Facts) -> Iterator[tuple[str, Pool, InstanceType]]:
    """Yield the pools whose instance type exists; another rule reports the others."""
    for path, pool in list_pools_with_paths(settings):
        instance_type = facts.instance_types.get(pool.instance_type)
        if instance_type:
            yield path, pool, instance_type


def format_account(facts: Facts) -> str:
    """Return the Region and account in which AWS was queried, for messages."""
    return f"{facts.region} of account {facts.caller.account}"
