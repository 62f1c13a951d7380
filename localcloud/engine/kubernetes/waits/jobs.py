"""Readiness of Jobs: a Job is ready once it completes."""

from localcloud.engine.kubernetes.objects import get_nested
from localcloud.engine.kubernetes.waits import pods
from localcloud.engine.kubernetes.waits.scene import (
    READY,
    Condition,
    Scene,
    Verdict,
    get_conditions,
    get_count,
    has_true_condition,
)


def _check_job(scene: Scene) -> Verdict:
    live = scene.live
    failed = get_conditions(live).get("Failed", {})
    if failed.get("status") == "True":
        return Verdict(False, failed=(f"[{failed.get('reason')}] {failed.get('message', '')}".strip(),))
    if get_nested(live, "status", "startTime") and has_true_condition(live, "Complete"):
        return READY
    counts = " | ".join(f"{name.capitalize()}: {get_count(live, 'status', name)}" for name in ("active", "succeeded", "failed"))
    return Verdict(False, f'Waiting for Job "{pods.format_display_name(live)}" to succeed ({counts})')


JOB = Condition(_check_job, lambda scene: pods.explain_workload(scene, scene.live), when_read=True)
