"""Readiness of PersistentVolumes and PersistentVolumeClaims."""

from localcloud.engine.kubernetes.objects import get_nested
from localcloud.engine.kubernetes.tokens import Kind
from localcloud.engine.kubernetes.waits.scene import READY, Condition, Scene, Verdict

STORAGE_CLASS = Kind("storage.k8s.io", "v1", "StorageClass")
PATIENCE_SECONDS = 300.0


def _check_claim(scene: Scene) -> Verdict:
    phase = get_nested(scene.live, "status", "phase")
    if phase == "Bound":
        return READY
    if phase == "Pending" and _is_bound_on_first_use(scene):
        return READY
    return Verdict(False, f"Waiting for the claim to be bound (phase: {phase})")


def _is_bound_on_first_use(scene: Scene) -> bool:
    """Return whether the claim is bound only once a Pod uses it. That Pod may be created later, so do not wait for the
    claim."""
    called = get_nested(scene.live, "spec", "storageClassName")
    storage_class = scene.find_object(STORAGE_CLASS, called, "") if called else None
    return bool(get_nested(storage_class, "volumeBindingMode") == "WaitForFirstConsumer")


def _check_volume(scene: Scene) -> Verdict:
    phase = get_nested(scene.live, "status", "phase")
    return READY if phase in ("Available", "Bound") else Verdict(False, f"Waiting for the volume (phase: {phase})")


CLAIM = Condition(_check_claim, seconds=PATIENCE_SECONDS)
VOLUME = Condition(_check_volume, seconds=PATIENCE_SECONDS)
