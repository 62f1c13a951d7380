"""Creation and update of objects, including dry runs."""

import time
from collections.abc import Callable, Iterable

from localcloud.engine.kubernetes import managed_fields, objects
from localcloud.engine.kubernetes.api import ApiError
from localcloud.engine.kubernetes.cluster import Cluster
from localcloud.engine.kubernetes.discovery import NoSuchKind
from localcloud.engine.kubernetes.engines import ResourceLog
from localcloud.engine.kubernetes.objects import DEFINITION, Object, get_nested
from localcloud.engine.kubernetes.tokens import Kind
from localcloud.engine.paths import Path, restore_values

RETRIES = 5
FIRST_PAUSE_SECONDS = 1.0


def create_object(
    cluster: Cluster, inputs: Object, manager: str, log: ResourceLog, gone: Callable[[], bool], *, dry_run: bool
) -> Object:
    """Create an object, with retries while its namespace or CRD does not exist yet.

    Raises ApiError, NoSuchKind or Unreachable.
    """
    pause = FIRST_PAUSE_SECONDS
    for attempt in range(RETRIES + 1):
        try:
            return _create_once(cluster, inputs, manager, dry_run=dry_run)
        except (ApiError, NoSuchKind) as error:
            permanent = isinstance(error, ApiError) and (not error.not_found or (dry_run and error.is_namespace_missing))
            if permanent or attempt == RETRIES or gone():
                raise
            log.status(f"Retry #{attempt}; creation failed: {error}")
        time.sleep(pause)
        pause *= 2
    raise AssertionError("unreachable: the last attempt returns or raises")


def _create_once(cluster: Cluster, inputs: Object, manager: str, *, dry_run: bool) -> Object:
    if not cluster.discovery.find(Kind.from_manifest(inputs)).namespaced:
        # `check` may have set a namespace because the CRD did not exist yet.
        inputs = objects.copy_with_metadata(inputs, namespace=None)
    if not cluster.settings.upsert:
        return cluster.create(inputs, managed_fields.CREATOR, dry_run=dry_run)
    forced = dry_run or must_force_apply(cluster, inputs)
    return cluster.apply(inputs, manager, force=forced, dry_run=dry_run)


def update_object(
    cluster: Cluster, inputs: Object, live: Object, manager: str, ignored: Iterable[Path], *, dry_run: bool
) -> Object:
    """Update the live object to match the inputs. Raises the same errors as `create_object`."""
    if Kind.from_manifest(inputs) == DEFINITION:
        # As with `kubectl replace`, replace the whole CRD at once; its custom resources are kept.
        version = get_nested(live, "metadata", "resourceVersion")
        return cluster.replace(objects.copy_with_metadata(inputs, resourceVersion=version), manager, dry_run=dry_run)
    forced = must_force_apply(cluster, inputs) or not managed_fields.get_entries(live)
    if dry_run:
        forced = forced or managed_fields.has_earlier_manager(live)
    else:
        live = _take_over_fields(cluster, live, manager)
    merged_inputs = _keep_ignored_fields(inputs, live, manager, ignored)
    return cluster.apply(merged_inputs, manager, force=forced, dry_run=dry_run)


def dry_run_object(cluster: Cluster, inputs: Object, manager: str) -> Object | None:
    """Return the object that the server would store for these inputs, or None if the server rejects the inputs or does
    not serve their kind."""
    try:
        return cluster.apply(inputs, manager, force=True, dry_run=True)
    except (ApiError, NoSuchKind):
        return None


def must_force_apply(cluster: Cluster, inputs: Object) -> bool:
    """Return whether to force server-side apply, which takes over fields from other managers."""
    return cluster.settings.patch_force or objects.has_true_annotation(inputs, objects.PATCH_FORCE)


def _take_over_fields(cluster: Cluster, live: Object, manager: str) -> Object:
    """Move fields of earlier managers to the resource's own manager, so that removing an input removes the field."""
    entries = managed_fields.take_over_fields(live, manager)
    if entries is None:
        return live
    version = get_nested(live, "metadata", "resourceVersion")
    return cluster.patch(
        live,
        [
            {"op": "replace", "path": "/metadata/managedFields", "value": entries},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
        ],
    )


def _keep_ignored_fields(inputs: Object, live: Object, manager: str, ignored: Iterable[Path]) -> Object:
    """Keep ignored fields unchanged: omit the fields that other managers own, and apply the live values of the fields
    that `manager` owns."""
    for path in ignored:
        names = [str(part) for part in path]
        foreign = managed_fields.is_owned_by_others(live, names, manager)
        inputs = _remove_path(inputs, names) if foreign else restore_values(inputs, live, path)
    return inputs


def _remove_path(obj: Object, path: list[str]) -> Object:
    head, *rest = path
    if not isinstance(obj, dict) or head not in obj:
        return obj
    if rest:
        return {**obj, head: _remove_path(obj[head], rest)}
    return {name: value for name, value in obj.items() if name != head}
