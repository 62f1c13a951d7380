"""Readiness of Deployments, StatefulSets, DaemonSets and ReplicationControllers."""

from localcloud.engine.kubernetes.objects import Object, annotation, nested
from localcloud.engine.kubernetes.tokens import Kind
from localcloud.engine.kubernetes.waits import pods
from localcloud.engine.kubernetes.waits.scene import READY, Condition, Scene, Verdict, conditions_of, count, holds, is_observed

REPLICA_SET = Kind("apps", "v1", "ReplicaSet")
REVISION = "deployment.kubernetes.io/revision"


def _deployment(scene: Scene) -> Verdict:
    live = scene.live
    if not is_observed(live) or not annotation(live, REVISION):
        return Verdict(False, "Waiting for the Deployment controller")
    rolled_out = annotation(live, REVISION) == "1" or _progress(live) == "NewReplicaSetAvailable"
    if holds(live, "Available") and rolled_out:
        current = _replica_set(scene)
        replicas = count(current, "spec", "replicas", default=1) if current else 0
        if current and count(current, "status", "readyReplicas") >= replicas:
            return READY
    ready, replicas = count(live, "status", "readyReplicas"), count(live, "spec", "replicas", default=1)
    return Verdict(False, f"Waiting for app ReplicaSet to be available ({ready}/{replicas} Pods available)")


def _why_not_deployed(scene: Scene) -> list[str]:
    live, reasons = scene.live, []
    for kind in ("Progressing", "Available"):
        condition = conditions_of(live).get(kind, {})
        if condition.get("status") == "False" and condition.get("reason") and condition.get("message"):
            reasons.append(f"[{condition['reason']}] {condition['message']}")
    if not holds(live, "Available"):
        reasons.append("Minimum number of live Pods was not attained")
    elif annotation(live, REVISION) == "1" or _progress(live) != "NewReplicaSetAvailable":
        reasons.append("Minimum number of Pods to consider the application live was not attained")
    else:
        reasons.append("Attempted to roll forward to new ReplicaSet, but minimum number of Pods did not become live")
    current = _replica_set(scene)
    return [*reasons, *(pods.explain_pods(scene, current) if current else [])]


def _progress(live: Object) -> str:
    condition = conditions_of(live).get("Progressing", {})
    return str(condition.get("reason")) if condition.get("status") == "True" else ""


def _replica_set(scene: Scene) -> Object | None:
    """Return the ReplicaSet of the Deployment's current revision."""
    revision = annotation(scene.live, REVISION)
    owned = scene.find_owned(REPLICA_SET, scene.live, nested(scene.live, "spec", "selector"))
    return next((replica_set for replica_set in owned if annotation(replica_set, REVISION) == revision), None)


def _stateful_set(scene: Scene) -> Verdict:
    live, status = scene.live, scene.live.get("status") or {}
    expected = count(live, "spec", "replicas", default=1)
    replicas = [count(status, name) for name in ("replicas", "readyReplicas", "currentReplicas")]
    if is_observed(live):
        by_hand = nested(live, "spec", "updateStrategy", "type") == "OnDelete" and count(live, "metadata", "generation") > 1
        if by_hand and replicas[:2] == [expected, expected]:
            return READY
        if _revisions_agree(live) and replicas == [expected] * 3:
            return READY
    done = min(count(status, "readyReplicas"), count(status, "updatedReplicas", default=expected))
    return Verdict(False, f"Waiting for StatefulSet to roll out ({done}/{expected} Pods ready)")


def _why_not_rolled_out(scene: Scene) -> list[str]:
    live, status = scene.live, scene.live.get("status") or {}
    replicas, ready = count(live, "spec", "replicas", default=1), count(status, "readyReplicas")
    reasons = [] if ready == replicas else [f"{ready} out of {replicas} replicas succeeded readiness checks"]
    if not _revisions_agree(live):
        before, after = status.get("currentRevision") or "", status.get("updateRevision") or ""
        reasons.append(f'StatefulSet controller failed to advance from revision "{before}" to revision "{after}"')
    return [*reasons, *pods.explain_pods(scene, live)]


def _revisions_agree(live: Object) -> bool:
    current = nested(live, "status", "currentRevision")
    return bool(current) and current == nested(live, "status", "updateRevision")


def _daemon_set(scene: Scene) -> Verdict:
    """Check the DaemonSet's status by the rules of https://pkg.go.dev/sigs.k8s.io/cli-utils/pkg/kstatus/status"""
    status = scene.live.get("status") or {}
    if not is_observed(scene.live) or "desiredNumberScheduled" not in status:
        return Verdict(False, "Waiting for the DaemonSet controller")
    scheduled = count(status, "desiredNumberScheduled")
    stages = {
        "currentNumberScheduled": "Current",
        "updatedNumberScheduled": "Updated",
        "numberAvailable": "Available",
        "numberReady": "Ready",
    }
    for name, title in stages.items():
        if count(status, name) < scheduled:
            return Verdict(False, f"{title}: {count(status, name)}/{scheduled}")
    return READY


def _replication_controller(scene: Scene) -> Verdict:
    replicas = count(scene.live, "spec", "replicas", default=1)
    ready = count(scene.live, "status", "availableReplicas")
    return READY if ready == replicas else Verdict(False, f"Waiting for replicas ({ready}/{replicas})")


DEPLOYMENT = Condition(_deployment, _why_not_deployed, related=True, when_read=True)
STATEFUL_SET = Condition(_stateful_set, _why_not_rolled_out, when_read=True)
DAEMON_SET = Condition(_daemon_set, lambda scene: pods.explain_pods(scene, scene.live), when_read=True)
REPLICATION_CONTROLLER = Condition(_replication_controller)
