"""List objects of all namespaces as a user who may read only some of them."""

from collections.abc import Callable, Iterable
from typing import TypeVar

from cli.clusters.kubernetes_access import Cluster
from cli.console import print_progress_once
from cli.errors import CommandError, Forbidden
from cli.installation import NAME
from infra.config.messages import join_with_and

Item = TypeVar("Item")


def list_in_allowed_namespaces(cluster: Cluster, read: Callable[[str | None], Iterable[Item]]) -> list[Item]:
    """Return what `read` lists in all namespaces. Users who may not list them get the objects of the job namespaces that
    they may read, and one sentence that names these. Raises Forbidden if there are none."""
    try:
        return list(read(None))
    except Forbidden as error:
        refused = error
    items: list[Item] = []
    allowed: list[str] = []
    for name in _list_job_namespaces(cluster):
        try:
            items += read(name)
        except Forbidden:
            continue
        allowed.append(name)
    if not allowed:
        raise refused
    print_progress_once(f"{NAME}: {describe_limit(allowed)}")
    return items


def describe_limit(allowed: Iterable[str]) -> str:
    """Return a sentence about the namespaces that the caller may read."""
    names = sorted(allowed)
    return f"only namespace{'' if len(names) == 1 else 's'} {join_with_and(names)}: you have no access to others"


def _list_job_namespaces(cluster: Cluster) -> list[str]:
    try:
        return [space.name for space in cluster.description().namespaces]
    except CommandError:
        return []
