"""Readiness of Jobs: a Job is ready once it completes."""

from localcloud.engine.kubernetes.objects import nested
from localcloud.engine.kubernetes.waits import pods
from localcloud.engine.kubernetes.waits.scene import READY, Condition, Scene, Verdict, conditions_of, count, holds


def _look(scene: Scene) -> Verdict:
    live = scene.live
    failed = conditions_of(live).get("Failed", {})
    if failed.get("status") == "True":
        return Verdict(False, failed=(f"[{failed.get('reason')}] {failed.get('message', '')}".strip(),))
    if nested(live, "status", "startTime") and holds(live, "Complete"):
        return READY
    counts = " | ".join(f"{name.capitalize()}: {count(live, 'status', name)}" for name in ("active", "succeeded", "failed"))
    return Verdict(False, f'Waiting for Job "{pods.display_name(live)}" to succeed ({counts})')


JOB = Condition(_look, lambda scene: pods.explain_pods(scene, scene.live), when_read=True)
