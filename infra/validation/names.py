"""Region, stack and pools: names that must fit into other names."""

import re
from collections.abc import Iterator

from infra.config.messages import shown
from infra.config.problems import Problem
from infra.naming import POOL_NAME_LIMIT, STACK_NAME_LIMIT
from infra.settings.stack import Settings
from infra.settings.targets import SYSTEM_POOL
from infra.validation.pool_paths import AnyStack

_REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-[0-9]+")
_STACK = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_DNS_LABEL = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")


def is_region(text: str) -> bool:
    """Whether a text has the form of a Region's name: boto3 makes no client for others."""
    return _REGION.fullmatch(text) is not None


def region(settings: Settings) -> Iterator[Problem]:
    if settings.region and not is_region(settings.region):
        yield Problem("aws:region", f"{shown(settings.region)} is not the name of a region; write one like us-west-2")


def stack(settings: AnyStack) -> Iterator[Problem]:
    name = settings.stack
    if not _STACK.fullmatch(name):
        yield Problem(
            "stack", f"{shown(name)} cannot name a cluster; name the file with lower-case letters, digits and inner hyphens"
        )
    if len(name) > STACK_NAME_LIMIT:
        yield Problem("stack", f"{shown(name)} has {len(name)} characters; name the file with at most {STACK_NAME_LIMIT}")


def pools(settings: AnyStack) -> Iterator[Problem]:
    first: dict[str, str] = {}
    for index, pool in enumerate(settings.pools):
        path = f"pools[{index}]"
        where, name = f"{path}.name", pool.name
        if not _DNS_LABEL.fullmatch(name):
            fix = "use lower-case letters, digits and inner hyphens, a letter first"
            yield Problem(where, f"{shown(name)} is not a DNS label; {fix}")
        if len(name) > POOL_NAME_LIMIT:
            yield Problem(where, f"{shown(name)} has {len(name)} characters; use at most {POOL_NAME_LIMIT}")
        if name == SYSTEM_POOL:
            yield Problem(where, f"{shown(name)} is the name of the CPU pool; choose another")
        if name in first:
            yield Problem(where, f"{shown(name)} is the name of {first[name]} too; choose another")
        first.setdefault(name, path)
