"""Creating and updating objects, for real and as dry runs."""

import time
from collections.abc import Callable, Iterable

from localcloud.engine.kubernetes import managed_fields, objects
from localcloud.engine.kubernetes.api import ApiError
from localcloud.engine.kubernetes.cluster import Cluster
from localcloud.engine.kubernetes.discovery import NoSuchKind
from localcloud.engine.kubernetes.engines import ResourceLog
from localcloud.engine.kubernetes.objects import DEFINITION, Object, nested
from localcloud.engine.kubernetes.tokens import Kind
from localcloud.engine.paths import Path, restore

RETRIES = 5
FIRST_PAUSE_SECONDS = 1.0


def created(
    cluster: Cluster, inputs: Object, manager: str, log: ResourceLog, gone: Callable[[], bool], *, dry_run: bool
) -> Object:
    """The new object. What it needs may still be on its way: a namespace, a definition.

    Raises ApiError, NoSuchKind and Unreachable.
    """
    pause = FIRST_PAUSE_SECONDS
    for attempt in range(RETRIES + 1):
        try:
            return _created(cluster, inputs, manager, dry_run=dry_run)
        except (ApiError, NoSuchKind) as error:
            hopeless = isinstance(error, ApiError) and (not error.not_found or (dry_run and error.namespace_missing))
            if hopeless or attempt == RETRIES or gone():
                raise
            log.status(f"Retry #{attempt}; creation failed: {error}")
        time.sleep(pause)
        pause *= 2
    raise AssertionError("the last attempt returns or raises")


def _created(cluster: Cluster, inputs: Object, manager: str, *, dry_run: bool) -> Object:
    if not cluster.discovery.find(Kind.of(inputs)).namespaced:
        inputs = objects.with_metadata(inputs, namespace=None)  # was assumed before the kind was known
    if not cluster.settings.upsert:
        return cluster.create(inputs, managed_fields.CREATOR, dry_run=dry_run)
    forced = dry_run or is_forced(cluster, inputs)
    return cluster.apply(inputs, manager, force=forced, dry_run=dry_run)


def updated(cluster: Cluster, inputs: Object, live: Object, manager: str, ignored: Iterable[Path], *, dry_run: bool) -> Object:
    """The object as the inputs want it. `live` is as the server has it now. Raises as `created`."""
    if Kind.of(inputs) == DEFINITION:
        # As `kubectl replace`: the whole definition at once, with its objects left alone.
        version = nested(live, "metadata", "resourceVersion")
        return cluster.replace(objects.with_metadata(inputs, resourceVersion=version), manager, dry_run=dry_run)
    forced = is_forced(cluster, inputs) or not managed_fields.entries(live)
    if dry_run:
        forced = forced or managed_fields.has_predecessor(live)
    else:
        live = _taken_over(cluster, live, manager)
    wanted = _respecting(inputs, live, manager, ignored)
    return cluster.apply(wanted, manager, force=forced, dry_run=dry_run)


def stored(cluster: Cluster, inputs: Object, manager: str) -> Object | None:
    """What the server would make of inputs, for a comparison; None where it would refuse them, or cannot say."""
    try:
        return cluster.apply(inputs, manager, force=True, dry_run=True)
    except (ApiError, NoSuchKind):
        return None


def is_forced(cluster: Cluster, inputs: Object) -> bool:
    """Whether fields are taken from whoever owns them."""
    return cluster.settings.patch_force or objects.is_true(inputs, objects.PATCH_FORCE)


def _taken_over(cluster: Cluster, live: Object, manager: str) -> Object:
    """Fields that were made in another name are the resource's own from now on, so that removing one removes it."""
    entries = managed_fields.taken_over(live, manager)
    if entries is None:
        return live
    version = nested(live, "metadata", "resourceVersion")
    return cluster.patch(
        live,
        [
            {"op": "replace", "path": "/metadata/managedFields", "value": entries},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
        ],
    )


def _respecting(inputs: Object, live: Object, manager: str, ignored: Iterable[Path]) -> Object:
    """What the program ignores stays as it is: left out where it is another's, repeated where it is ours."""
    for path in ignored:
        names = [str(part) for part in path]
        theirs = managed_fields.owned_by_others(live, names, manager)
        inputs = _without(inputs, names) if theirs else restore(inputs, live, path)
    return inputs


def _without(obj: Object, path: list[str]) -> Object:
    head, *rest = path
    if not isinstance(obj, dict) or head not in obj:
        return obj
    if rest:
        return {**obj, head: _without(obj[head], rest)}
    return {name: value for name, value in obj.items() if name != head}
