"""Readiness of Deployments, StatefulSets, DaemonSets and ReplicationControllers."""

from localcloud.engine.kubernetes.objects import Object, get_annotation, get_nested
from localcloud.engine.kubernetes.tokens import Kind
from localcloud.engine.kubernetes.waits import pods
from localcloud.engine.kubernetes.waits.scene import (
    READY,
    Condition,
    Scene,
    Verdict,
    get_conditions,
    get_count,
    has_true_condition,
    is_observed,
)

REPLICA_SET = Kind("apps", "v1", "ReplicaSet")
REVISION = "deployment.kubernetes.io/revision"


def _check_deployment(scene: Scene) -> Verdict:
    live = scene.live
    if not is_observed(live) or not get_annotation(live, REVISION):
        return Verdict(False, "Waiting for the Deployment controller")
    rolled_out = get_annotation(live, REVISION) == "1" or _get_progress_reason(live) == "NewReplicaSetAvailable"
    if has_true_condition(live, "Available") and rolled_out:
        current = _find_replica_set(scene)
        replicas = get_count(current, "spec", "replicas", default=1) if current else 0
        if current and get_count(current, "status", "readyReplicas") >= replicas:
            return READY
    ready, replicas = get_count(live, "status", "readyReplicas"), get_count(live, "spec", "replicas", default=1)
    return Verdict(False, f"Waiting for app ReplicaSet to be available ({ready}/{replicas} Pods available)")


def _explain_deployment(scene: Scene) -> list[str]:
    live, reasons = scene.live, []
    for kind in ("Progressing", "Available"):
        condition = get_conditions(live).get(kind, {})
        if condition.get("status") == "False" and condition.get("reason") and condition.get("message"):
            reasons.append(f"[{condition['reason']}] {condition['message']}")
    if not has_true_condition(live, "Available"):
        reasons.append("Minimum number of live Pods was not attained")
    elif get_annotation(live, REVISION) == "1" or _get_progress_reason(live) != "NewReplicaSetAvailable":
        reasons.append("Minimum number of Pods to consider the application live was not attained")
    else:
        reasons.append("Attempted to roll forward to new ReplicaSet, but minimum number of Pods did not become live")
    current = _find_replica_set(scene)
    return [*reasons, *(pods.explain_workload(scene, current) if current else [])]


def _get_progress_reason(live: Object) -> str:
    condition = get_conditions(live).get("Progressing", {})
    return str(condition.get("reason")) if condition.get("status") == "True" else ""


def _find_replica_set(scene: Scene) -> Object | None:
    """Return the ReplicaSet of the Deployment's current revision."""
    revision = get_annotation(scene.live, REVISION)
    owned = scene.find_owned_objects(REPLICA_SET, scene.live, get_nested(scene.live, "spec", "selector"))
    return next((replica_set for replica_set in owned if get_annotation(replica_set, REVISION) == revision), None)


def _check_stateful_set(scene: Scene) -> Verdict:
    live, status = scene.live, scene.live.get("status") or {}
    expected = get_count(live, "spec", "replicas", default=1)
    replicas = [get_count(status, name) for name in ("replicas", "readyReplicas", "currentReplicas")]
    if is_observed(live):
        by_hand = (
            get_nested(live, "spec", "updateStrategy", "type") == "OnDelete" and get_count(live, "metadata", "generation") > 1
        )
        if by_hand and replicas[:2] == [expected, expected]:
            return READY
        if _is_revision_current(live) and replicas == [expected] * 3:
            return READY
    done = min(get_count(status, "readyReplicas"), get_count(status, "updatedReplicas", default=expected))
    return Verdict(False, f"Waiting for StatefulSet to roll out ({done}/{expected} Pods ready)")


def _explain_stateful_set(scene: Scene) -> list[str]:
    live, status = scene.live, scene.live.get("status") or {}
    replicas, ready = get_count(live, "spec", "replicas", default=1), get_count(status, "readyReplicas")
    reasons = [] if ready == replicas else [f"{ready} out of {replicas} replicas succeeded readiness checks"]
    if not _is_revision_current(live):
        before, after = status.get("currentRevision") or "", status.get("updateRevision") or ""
        reasons.append(f'StatefulSet controller failed to advance from revision "{before}" to revision "{after}"')
    return [*reasons, *pods.explain_workload(scene, live)]


def _is_revision_current(live: Object) -> bool:
    current = get_nested(live, "status", "currentRevision")
    return bool(current) and current == get_nested(live, "status", "updateRevision")


def _check_daemon_set(scene: Scene) -> Verdict:
    """Check the DaemonSet's status by the rules of https://pkg.go.dev/sigs.k8s.io/cli-utils/pkg/kstatus/status"""
    status = scene.live.get("status") or {}
    if not is_observed(scene.live) or "desiredNumberScheduled" not in status:
        return Verdict(False, "Waiting for the DaemonSet controller")
    scheduled = get_count(status, "desiredNumberScheduled")
    stages = {
        "currentNumberScheduled": "Current",
        "updatedNumberScheduled": "Updated",
        "numberAvailable": "Available",
        "numberReady": "Ready",
    }
    for name, title in stages.items():
        if get_count(status, name) < scheduled:
            return Verdict(False, f"{title}: {get_count(status, name)}/{scheduled}")
    return READY


def _check_replication_controller(scene: Scene) -> Verdict:
    replicas = get_count(scene.live, "spec", "replicas", default=1)
    ready = get_count(scene.live, "status", "availableReplicas")
    return READY if ready == replicas else Verdict(False, f"Waiting for replicas ({ready}/{replicas})")


DEPLOYMENT = Condition(_check_deployment, _explain_deployment, related=True, when_read=True)
STATEFUL_SET = Condition(_check_stateful_set, _explain_stateful_set, when_read=True)
DAEMON_SET = Condition(_check_daemon_set, lambda scene: pods.explain_workload(scene, scene.live), when_read=True)
REPLICATION_CONTROLLER = Condition(_check_replication_controller)
