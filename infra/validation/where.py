"""Paths of pools, as the user writes them."""

from collections.abc import Iterator

from infra.facts.model import Facts
from infra.instances import InstanceType
from infra.settings import Pool, Settings


def pools_with_paths(settings: Settings) -> Iterator[tuple[str, Pool]]:
    for index, pool in enumerate(settings.pools):
        yield f"pools[{index}]", pool


def pools_with_types(settings: Settings, facts: Facts) -> Iterator[tuple[str, Pool, InstanceType]]:
    """The pools whose type exists; of the others one problem is enough."""
    for path, pool in pools_with_paths(settings):
        instance_type = facts.instance_types.get(pool.instance_type)
        if instance_type:
            yield path, pool, instance_type


def head_path(settings: Settings) -> str:
    """Where the user writes the type beside the pools'."""
    return "target.system.instanceType" if settings.is_eks else "target.masterType"


def account(facts: Facts) -> str:
    """Where AWS looked for what the stack names."""
    return f"{facts.region} of account {facts.caller.account}"
