"""Resource lifecycle on plain values: check, diff, create, read, update, delete.

https://github.com/pulumi/pulumi-kubernetes/blob/master/provider/pkg/provider/provider.go
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from localcloud.engine.codec import Unknown, has_unknowns
from localcloud.engine.kubernetes import applying, checkpoint, immutable, managed_fields, naming, objects
from localcloud.engine.kubernetes.api import ApiError, Unreachable
from localcloud.engine.kubernetes.checkpoint import Masks
from localcloud.engine.kubernetes.cluster import Cluster
from localcloud.engine.kubernetes.difference import Change, compare, select_effective_changes
from localcloud.engine.kubernetes.discovery import NoSuchKind
from localcloud.engine.kubernetes.engines import ResourceLog
from localcloud.engine.kubernetes.failures import REMOVAL_HELP, InitializationFailed, OperationFailed, format_server_error
from localcloud.engine.kubernetes.objects import DEFINITION, Object
from localcloud.engine.kubernetes.shapes import prune
from localcloud.engine.kubernetes.tokens import Kind
from localcloud.engine.kubernetes.waits.jobs import JOB
from localcloud.engine.kubernetes.waits.scene import Scene
from localcloud.engine.kubernetes.waits.wait import (
    NotReady,
    Patience,
    find_unready_reasons,
    get_timeout,
    wait_until_gone,
    wait_until_ready,
)
from localcloud.engine.kubernetes.waits.wait_for import BadCondition
from localcloud.engine.paths import parse

REFUSALS = (ApiError, Unreachable, NoSuchKind, BadCondition)
PROPAGATION = {"orphan": "Orphan", "background": "Background"}
UNREADY_PATH = '.metadata.annotations["pulumi.com/replaceUnready"]'


@dataclass(frozen=True)
class Task:
    """Operation on one resource, requested by the engine."""

    cluster: Cluster
    kind: Kind
    urn: str
    log: ResourceLog
    gone: Callable[[], bool]
    """Returns whether the engine has disconnected or canceled the operation."""

    def build_patience(self, inputs: Mapping[str, Any], custom: float) -> Patience:
        return Patience(get_timeout(inputs, custom), self.gone)


@dataclass(frozen=True)
class Outcome:
    """Result of an operation, recorded by the engine."""

    id: str
    state: Object
    secrets: Masks
    inputs: Object | None = None
    """Inputs that a refresh read from the cluster; None after other operations."""


@dataclass(frozen=True)
class Difference:
    """Changes that an update would make, and whether they require a replacement."""

    changes: tuple[Change, ...]
    replaces: tuple[str, ...] = ()
    """Paths whose changes require a replacement, in addition to changed immutable fields."""
    delete_first: bool = False


def check(
    cluster: Cluster,
    kind: Kind,
    inputs: Mapping[str, Any],
    previous: Mapping[str, Any],
    logical: str,
    *,
    seed: bytes = b"",
    proposed: str = "",
    disabled: bool = False,
) -> Object:
    """Return the inputs, with a name and a namespace added if they are missing. Raises naming.Unnamed."""
    obj = {"apiVersion": kind.api_version, "kind": kind.kind, **objects.from_pulumi(inputs)}
    obj = naming.assign_name(
        objects.normalize({"metadata": {}, **obj}), previous, logical, seed=seed, proposed=proposed, disabled=disabled
    )
    if isinstance(obj["metadata"], Unknown):
        return obj
    if cluster.default_namespace and not obj["metadata"].get("namespace") and cluster.discovery.is_namespaced(kind):
        obj = objects.copy_with_metadata(obj, namespace=cluster.default_namespace)
    if kind == DEFINITION:
        cluster.discovery.record_crd(obj)
    return obj


def compute_difference(task: Task, state: Mapping[str, Any], inputs: Mapping[str, Any], ignored: Iterable[str]) -> Difference:
    """Return the changes between `state` and `inputs`."""
    cluster = task.cluster
    old_inputs, live = checkpoint.split_state(state)
    new = _set_namespace(task, objects.normalize(objects.from_pulumi(inputs)))
    old = _set_namespace(task, prune(live, objects.normalize(old_inputs)))
    if objects.get_name(new):  # setting the generated name explicitly is not a change
        old = objects.copy_with_metadata(old, name=objects.get_name(live))
    patterns = immutable.list_immutable_paths(
        new,
        mutable_config_maps=cluster.settings.mutable_config_maps,
        mutable_secrets=cluster.settings.mutable_secrets,
    )
    changes = compare(old, new, patterns, [parse(text) for text in ignored])
    if (
        changes
        and not cluster.unreachable
        and not has_unknowns(new)
        and objects.format_pulumi_id(new) == objects.format_pulumi_id(live)
    ):
        manager = checkpoint.choose_field_manager(state, new)
        changes = select_effective_changes(changes, live, lambda: applying.dry_run_object(cluster, new, manager))
    reasons = (UNREADY_PATH,) if _is_unready_job(task, new, live) else ()
    replaced = bool(reasons) or any(change.replace for change in changes)
    same_place = (objects.get_name(new), objects.get_namespace(new)) == (objects.get_name(live), objects.get_namespace(live))
    delete_first = replaced and naming.is_named(new) and not naming.is_autonamed(new) and same_place
    return Difference(tuple(changes), reasons, delete_first)


def preview_creation(task: Task, inputs: Object, secrets: Masks) -> Outcome:
    """Return the state that a preview shows for a new object: the result of a dry run, or the inputs."""
    if has_unknowns(inputs) or task.cluster.unreachable or not task.cluster.discovery.is_served(task.kind):
        return Outcome("", objects.to_pulumi(inputs), secrets)
    manager = checkpoint.choose_field_manager({}, inputs)
    try:
        live = applying.create_object(task.cluster, inputs, manager, task.log, task.gone, dry_run=True)
    except ApiError as error:
        if error.is_forbidden or error.is_already_exists or error.is_namespace_missing:
            return Outcome("", objects.to_pulumi(inputs), secrets)
        raise OperationFailed(_format_creation_error(task, error, manager)) from error
    except Unreachable as error:
        raise OperationFailed(_format_creation_error(task, error, manager)) from error
    live.pop("status", None)
    return Outcome("", *checkpoint.build_state(live, inputs, secrets, manager))


def create(task: Task, inputs: Object, secrets: Masks, custom_seconds: float) -> Outcome:
    """Create the object and wait until it is ready. Raises OperationFailed or InitializationFailed."""
    _require_reachable(task)
    manager = checkpoint.choose_field_manager({}, inputs)
    try:
        live = applying.create_object(task.cluster, inputs, manager, task.log, task.gone, dry_run=False)
    except NoSuchKind as error:
        raise OperationFailed(
            f'creation of resource "{task.urn}" with kind {task.kind} failed because the Kubernetes API server reported that '
            f"the apiVersion for this resource does not exist. Verify that any required CRDs have been created: {error}"
        ) from error
    except REFUSALS as error:
        raise OperationFailed(_format_creation_error(task, error, manager)) from error
    task.log.status("")
    why = (
        f'resource "{task.urn}" was successfully created, but the Kubernetes API server reported '
        "that it failed to fully initialize or become live"
    )
    return _await_ready(task, inputs, live, secrets, manager, custom_seconds, why, updating=False)


def read(task: Task, id: str, state: Mapping[str, Any], inputs: Mapping[str, Any], secrets: Masks) -> Outcome | None:
    """Return the current object, or None if it no longer exists. Raises OperationFailed or InitializationFailed."""
    cluster = task.cluster
    if cluster.unreachable:
        return _read_unreachable(task, id, state, inputs, secrets)
    where, called = objects.parse_pulumi_id(id)
    old = objects.normalize(objects.from_pulumi(inputs))
    identity = {"name": called, "namespace": where or objects.get_namespace(old)}
    reference = {"apiVersion": task.kind.api_version, "kind": task.kind.kind, "metadata": identity}
    try:
        live = cluster.get(_set_namespace(task, reference))
    except NoSuchKind:
        return None
    except ApiError as error:
        if error.not_found:
            return None
        raise OperationFailed(str(error)) from error
    except Unreachable as error:
        raise OperationFailed(str(error)) from error
    observed = _build_refreshed_inputs(live, old)
    manager = checkpoint.choose_field_manager(state, old)
    outcome = Outcome(id, *checkpoint.build_state(live, observed, secrets, manager), inputs=objects.to_pulumi(observed))
    reasons = find_unready_reasons(cluster, old, live) if old else None
    if reasons is None:
        return outcome
    text = f"Resource '{called}' was created but failed to initialize"
    raise InitializationFailed(id, outcome.state, outcome.secrets, (text, *reasons), outcome.inputs)


def preview_update(task: Task, state: Mapping[str, Any], inputs: Object, secrets: Masks, ignored: Iterable[str]) -> Outcome:
    """Return the state that the preview of an update shows."""
    inputs = objects.normalize(objects.from_pulumi(inputs))
    if has_unknowns(inputs) or task.cluster.unreachable or not task.cluster.discovery.is_served(task.kind):
        return Outcome("", objects.to_pulumi(inputs), secrets)
    manager = checkpoint.choose_field_manager(state, inputs)
    try:
        live = task.cluster.get(inputs)
        answer = applying.update_object(task.cluster, inputs, live, manager, [parse(text) for text in ignored], dry_run=True)
    except ApiError as error:
        if error.is_forbidden:
            return Outcome("", objects.to_pulumi(inputs), secrets)
        raise OperationFailed(f'update of resource "{task.urn}" failed: {format_server_error(error, manager)}') from error
    except Unreachable as error:
        raise OperationFailed(f'update of resource "{task.urn}" failed: {error}') from error
    return Outcome("", *checkpoint.build_state(answer, inputs, secrets, manager))


def update(
    task: Task, state: Mapping[str, Any], inputs: Object, secrets: Masks, ignored: Iterable[str], custom_seconds: float
) -> Outcome:
    """Update the object in place and wait until it is ready. Raises OperationFailed or InitializationFailed."""
    _require_reachable(task)
    inputs = objects.normalize(objects.from_pulumi(inputs))
    manager = checkpoint.choose_field_manager(state, inputs)
    called = objects.format_pulumi_id(inputs)
    why = f'the Kubernetes API server reported that "{called}" failed to fully initialize or become live'
    try:
        before = task.cluster.get(inputs)
    except REFUSALS as error:
        raise OperationFailed(f'update of resource "{task.urn}" failed: {error}') from error
    try:
        live = applying.update_object(task.cluster, inputs, before, manager, [parse(text) for text in ignored], dry_run=False)
    except REFUSALS as error:
        failed_state, masks = checkpoint.build_state(before, inputs, secrets, manager)
        raise InitializationFailed(called, failed_state, masks, [f"{why}: {format_server_error(error, manager)}"]) from error
    return _await_ready(task, inputs, live, secrets, manager, custom_seconds, why, updating=True)


def delete(task: Task, id: str, state: Mapping[str, Any], secrets: Masks, custom_seconds: float) -> None:
    """Delete the object and wait until it is gone. Raises OperationFailed or InitializationFailed."""
    cluster = task.cluster
    inputs, live = checkpoint.split_state(state)
    if cluster.unreachable:
        task.log.warning(f"configured Kubernetes cluster is unreachable: {cluster.unreachable}")
        if cluster.settings.delete_unreachable:
            task.log.info(_format_state_removal())
            return
        raise OperationFailed(f"configured Kubernetes cluster is unreachable. If the cluster was deleted, {REMOVAL_HELP}")
    where, called = objects.parse_pulumi_id(id)
    target = {"apiVersion": task.kind.api_version, "kind": task.kind.kind, **live}
    target = _set_namespace(task, objects.copy_with_metadata(target, name=called, namespace=where or None))
    policy = objects.get_annotation(inputs, objects.DELETION_PROPAGATION).lower()
    try:
        cluster.delete(target, PROPAGATION.get(policy, "Foreground"))
        wait_until_gone(cluster, inputs, target, task.build_patience(inputs, custom_seconds), task.log)
    except NoSuchKind:
        return  # the CRD was deleted, which also deleted the object
    except NotReady as error:
        failed_state, masks = checkpoint.build_state(error.live, inputs, secrets, checkpoint.choose_field_manager(state, inputs))
        raise InitializationFailed(id, failed_state, masks, [str(error)]) from error
    except ApiError as error:
        if not error.not_found:
            raise OperationFailed(str(error)) from error
    except Unreachable as error:
        raise OperationFailed(str(error)) from error
    finally:
        if task.kind == DEFINITION:
            cluster.discovery.clear_cache()


def _await_ready(
    task: Task, inputs: Object, live: Object, secrets: Masks, manager: str, custom_seconds: float, why: str, *, updating: bool
) -> Outcome:
    id = objects.format_pulumi_id(live)
    try:
        live = wait_until_ready(
            task.cluster, inputs, live, task.build_patience(inputs, custom_seconds), task.log, updating=updating
        )
    except (NotReady, BadCondition) as error:
        current, reasons = (error.live, error.reasons) if isinstance(error, NotReady) else (live, ())
        failed_state, masks = checkpoint.build_state(current, inputs, secrets, manager)
        raise InitializationFailed(id, failed_state, masks, [f"{why}: {error}", *reasons]) from error
    finally:
        task.log.status("")
        if task.kind == DEFINITION:
            task.cluster.discovery.clear_cache()
    return Outcome(id, *checkpoint.build_state(live, inputs, secrets, manager))


def _read_unreachable(task: Task, id: str, state: Mapping[str, Any], inputs: Mapping[str, Any], secrets: Masks) -> Outcome | None:
    settings = task.cluster.settings
    task.log.warning(f"configured Kubernetes cluster is unreachable: {task.cluster.unreachable}")
    if settings.delete_unreachable:
        task.log.info(_format_state_removal())
        return None
    if settings.skip_update_unreachable:
        return Outcome(id, dict(state), secrets, dict(inputs))
    text = "failed to read resource state due to unreachable cluster. If the cluster was deleted, "
    raise OperationFailed(text + REMOVAL_HELP)


def _format_state_removal() -> str:
    return (
        "configured Kubernetes cluster is unreachable and the `deleteUnreachable` option is enabled. "
        "Deleting the unreachable resource from Pulumi state"
    )


def _build_refreshed_inputs(live: Object, old: Object) -> Object:
    """Return the inputs that a refresh records: the fields set by the program or, after an import, by any user."""
    if old:
        return objects.normalize(prune(live, old))
    inputs = objects.normalize(managed_fields.select_user_fields(live))
    annotations = dict(objects.get_nested(inputs, "metadata", "annotations") or {})
    for name in ("deployment.kubernetes.io/revision", managed_fields.LAST_APPLIED):
        annotations.pop(name, None)
    return objects.copy_with_metadata(inputs, annotations=annotations or None)


def _is_unready_job(task: Task, new: Object, live: Object) -> bool:
    """Return whether the annotation `pulumi.com/replaceUnready` requires a replacement because the Job is
    incomplete."""
    if not objects.has_true_annotation(new, objects.REPLACE_UNREADY) or task.cluster.unreachable:
        return False
    if task.kind.kind != "Job":
        task.log.warning("replaceUnready annotation is not supported for this resource")
        return False
    try:
        return not JOB.look(Scene(task.cluster, task.cluster.get(live))).ready
    except REFUSALS:
        return False


def _set_namespace(task: Task, obj: Object) -> Object:
    """Set the namespace of a namespaced object, or remove the namespace from a cluster-scoped object."""
    if isinstance(obj.get("metadata"), Unknown):
        return obj
    where = (
        (objects.get_nested(obj, "metadata", "namespace") or "default")
        if task.cluster.discovery.is_namespaced(task.kind)
        else None
    )
    return objects.copy_with_metadata(obj, namespace=where)


def _require_reachable(task: Task) -> None:
    if task.cluster.unreachable:
        raise OperationFailed(f"configured Kubernetes cluster is unreachable: {task.cluster.unreachable}")


def _format_creation_error(task: Task, error: Exception, manager: str) -> str:
    return (
        f'resource "{task.urn}" was not successfully created by the Kubernetes API server: {format_server_error(error, manager)}'
    )
