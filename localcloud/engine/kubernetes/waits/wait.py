"""Waits for an object: until it is ready after a create or update, and until it is gone after a delete."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from localcloud.engine.kubernetes import objects
from localcloud.engine.kubernetes.api import ApiError, Unreachable
from localcloud.engine.kubernetes.cluster import Cluster
from localcloud.engine.kubernetes.engines import ResourceLog
from localcloud.engine.kubernetes.objects import Object, get_name, get_nested
from localcloud.engine.kubernetes.tokens import Kind
from localcloud.engine.kubernetes.waits.scene import Condition, Scene
from localcloud.engine.kubernetes.waits.table import CONDITIONS
from localcloud.engine.kubernetes.waits.wait_for import parse_condition as annotated_condition

DEFAULT_SECONDS = 600.0
WATCH_SECONDS = 2
"""Duration of a watch. It is short so the provider soon notices that the engine has disconnected."""
SHORTEST_PAUSE, LONGEST_PAUSE = 0.1, 1.0
DELETED_WITHOUT_WAIT = frozenset(
    {"v1/Namespace", "v1/Pod", "v1/ReplicationController", "apps/v1/DaemonSet", "apps/v1/Deployment", "apps/v1/StatefulSet"}
    | {"batch/v1/Job"}
)
"""Kinds for which skipAwait also skips the wait for deletion. For other kinds, skipAwait affects only create and
update. https://github.com/pulumi/pulumi-kubernetes/issues/1232"""


class NotReady(Exception):
    """The object exists but is not ready. `live` is its last known state."""

    def __init__(self, text: str, live: Object, reasons: tuple[str, ...] = ()) -> None:
        super().__init__(text)
        self.live = live
        self.reasons = reasons


@dataclass(frozen=True)
class Patience:
    """Timeout and cancellation of a wait."""

    seconds: float
    gone: Callable[[], bool]
    """Returns whether the engine has disconnected or canceled the operation."""


def get_timeout(inputs: Mapping[str, Any], custom: float) -> float:
    """Return the timeout from the resource option `customTimeouts`, else from the annotation, else ten minutes."""
    if custom:
        return custom
    annotated = objects.get_annotation(inputs, objects.TIMEOUT_SECONDS)
    return float(annotated) if annotated.isdigit() else DEFAULT_SECONDS


def find_ready_condition(inputs: Mapping[str, Any], live: Mapping[str, Any]) -> Condition | None:
    """Return the readiness check, or None if there is no need to wait for the object. Raises BadCondition."""
    if objects.has_true_annotation(inputs, objects.SKIP_AWAIT):
        return None
    if annotated := objects.get_annotation(inputs, objects.WAIT_FOR):
        return annotated_condition(annotated)
    return CONDITIONS.get(str(Kind.from_manifest(live)))


def wait_until_ready(
    cluster: Cluster, inputs: Object, live: Object, patience: Patience, log: ResourceLog, *, updating: bool
) -> Object:
    """Wait until the object is ready and return it. Raises NotReady."""
    condition = find_ready_condition(inputs, live)
    if condition is None:
        return live
    scene = Scene(cluster, live, updating)
    deadline = time.monotonic() + min(patience.seconds, condition.seconds or patience.seconds)
    looks = 0
    while True:
        verdict = _check_ready(condition, scene)
        if verdict is not None:
            log.status(verdict.progress)
            if verdict.ready:
                return scene.live
            if verdict.failed:
                raise NotReady(f"Resource '{get_name(live)}' was created but failed to initialize", scene.live, verdict.failed)
        if patience.gone():
            raise NotReady(
                f'Resource operation was cancelled for "{get_name(live)}"', scene.live, _explain_unready(condition, scene)
            )
        if time.monotonic() >= deadline:
            raise NotReady(f"'{get_name(live)}' timed out waiting to be Ready", scene.live, _explain_unready(condition, scene))
        pause = min(SHORTEST_PAUSE * 1.5**looks, LONGEST_PAUSE, max(deadline - time.monotonic(), 0.0))
        scene.live = _wait_for_change(cluster, scene.live, pause, patience, by_watching=not condition.related)
        looks += 1


def find_unready_reasons(cluster: Cluster, inputs: Object, live: Object) -> tuple[str, ...] | None:
    """Return the reasons why a refresh reports the object as not ready, or None if it is ready or has no readiness
    check."""
    if objects.has_true_annotation(inputs, objects.SKIP_AWAIT):
        return None
    condition = CONDITIONS.get(str(Kind.from_manifest(live)))
    if condition is None or not condition.when_read:
        return None
    scene = Scene(cluster, live, updating=True, memory={"read": True})
    verdict = condition.look(scene)
    return None if verdict.ready else (*verdict.failed, *_explain_unready(condition, scene))


def wait_until_gone(cluster: Cluster, inputs: Object, live: Object, patience: Patience, log: ResourceLog) -> None:
    """Wait until the object is gone. On a timeout, warn about finalizers and raise NotReady."""
    if objects.has_true_annotation(inputs, objects.SKIP_AWAIT) and str(Kind.from_manifest(live)) in DELETED_WITHOUT_WAIT:
        return
    deadline = time.monotonic() + patience.seconds
    latest, looks = live, 0
    while True:
        try:
            current = cluster.get(live)
            if get_nested(current, "metadata", "uid") != get_nested(live, "metadata", "uid") and get_nested(
                live, "metadata", "uid"
            ):
                return  # the object is gone; this is a new object with the same name
            latest = current
        except ApiError as error:
            if error.not_found:
                return
        except Unreachable:
            pass
        if time.monotonic() >= deadline or patience.gone():
            finalizers = ", ".join(get_nested(latest, "metadata", "finalizers") or [])
            log.warning(f"finalizers might be preventing deletion ({finalizers})")
            raise NotReady("timed out waiting for the condition", latest)
        time.sleep(min(SHORTEST_PAUSE * 1.5**looks, LONGEST_PAUSE, max(deadline - time.monotonic(), 0.01)))
        looks += 1


def _check_ready(condition: Condition, scene: Scene) -> Any:
    """Run the readiness check. Return None if the API server is unavailable, since it may restart during the wait."""
    try:
        return condition.look(scene)
    except (ApiError, Unreachable):
        return None


def _explain_unready(condition: Condition, scene: Scene) -> tuple[str, ...]:
    try:
        return tuple(condition.explain(scene))
    except (ApiError, Unreachable):
        return ()


def _wait_for_change(cluster: Cluster, live: Object, pause: float, patience: Patience, *, by_watching: bool) -> Object:
    """Wait until the object changes or `pause` seconds have passed, then return the object."""
    try:
        if by_watching:
            return _watch_for_change(cluster, live, patience)
        time.sleep(pause)
        return cluster.get(live)
    except ApiError as error:
        if error.not_found:
            raise NotReady(f'"{get_name(live)}" was deleted while waiting for it', live) from error
    except Unreachable:
        pass
    time.sleep(pause)
    return live


def _watch_for_change(cluster: Cluster, live: Object, patience: Patience) -> Object:
    now = cluster.get(live)
    version = get_nested(now, "metadata", "resourceVersion")
    if version != get_nested(live, "metadata", "resourceVersion"):
        return now
    query = {"fieldSelector": f"metadata.name={get_name(live)}", "resourceVersion": version}
    for event in cluster.api.watch(cluster.build_collection_path(live), WATCH_SECONDS, cluster.cancellation.requested, **query):
        if event.get("type") == "MODIFIED":
            return event["object"]  # type: ignore[no-any-return]
        if event.get("type") == "DELETED":
            break
    return cluster.get(live)
