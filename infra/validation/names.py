"""Rules for the names of the Region, the stack and its pools, from which other names are derived."""

import re
from collections.abc import Iterator

from infra.config.messages import format_value
from infra.config.problems import Problem
from infra.facts import regions
from infra.naming import POOL_NAME_LIMIT, STACK_NAME_LIMIT, SYSTEM_POOL
from infra.settings.existing import LabeledPool
from infra.settings.pools import Pool
from infra.settings.stack import Settings
from infra.validation.registry import ANY, AnyStack, register_rule

_STACK = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_DNS_LABEL = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")


@register_rule()
def check_region_name(settings: Settings) -> Iterator[Problem]:
    if settings.region and not regions.is_region_name(settings.region):
        yield Problem("aws:region", f"{regions.describe_malformed_region(settings.region)}.")


@register_rule(target=ANY)
def check_stack_name(settings: AnyStack) -> Iterator[Problem]:
    name = settings.stack
    if not _STACK.fullmatch(name):
        yield Problem(
            "stack",
            f"{format_value(name)} is not a valid cluster name. "
            "Name the stack file with lowercase letters, digits and inner hyphens.",
        )
    if len(name) > STACK_NAME_LIMIT:
        yield Problem(
            "stack", f"{format_value(name)} has {len(name)} characters. Name the stack file with at most {STACK_NAME_LIMIT}."
        )


@register_rule(target=ANY)
def check_pool_names(settings: AnyStack) -> Iterator[Problem]:
    path_of: dict[str, str] = {}
    pools: tuple[Pool | LabeledPool, ...] = settings.pools
    for index, pool in enumerate(pools):
        path = f"pools[{index}]"
        where, name = f"{path}.name", pool.name
        if not _DNS_LABEL.fullmatch(name):
            fix = "Use lowercase letters, digits and inner hyphens, starting with a letter."
            yield Problem(where, f"{format_value(name)} is not a DNS label. {fix}")
        if len(name) > POOL_NAME_LIMIT:
            yield Problem(where, f"{format_value(name)} has {len(name)} characters. Use at most {POOL_NAME_LIMIT}.")
        if name == SYSTEM_POOL:
            yield Problem(where, f"{format_value(name)} is reserved for the CPU pool. Choose another name.")
        if name in path_of:
            yield Problem(where, f"{format_value(name)} is already the name of {path_of[name]}. Choose another.")
        path_of.setdefault(name, path)
