"""Readiness checks, keyed by kind. Objects of kinds without a check are ready once they exist."""

from localcloud.engine.kubernetes.objects import get_nested
from localcloud.engine.kubernetes.waits.jobs import JOB
from localcloud.engine.kubernetes.waits.pods import POD_READY
from localcloud.engine.kubernetes.waits.scene import READY, Condition, Scene, Verdict, get_conditions, has_true_condition
from localcloud.engine.kubernetes.waits.services import SERVICE
from localcloud.engine.kubernetes.waits.volumes import CLAIM, VOLUME
from localcloud.engine.kubernetes.waits.workloads import DAEMON_SET, DEPLOYMENT, REPLICATION_CONTROLLER, STATEFUL_SET


def _check_crd(scene: Scene) -> Verdict:
    refused = get_conditions(scene.live).get("NamesAccepted", {})
    if refused.get("status") == "False":
        return Verdict(False, failed=(f"[{refused.get('reason')}] {refused.get('message')}",))
    return READY if has_true_condition(scene.live, "Established") else Verdict(False, "Waiting for the CRD to be established")


def _check_quota(scene: Scene) -> Verdict:
    hard_limits = get_nested(scene.live, "spec", "hard")
    return READY if hard_limits == get_nested(scene.live, "status", "hard") else Verdict(False, "Waiting for the quota status")


def _check_token_secret(scene: Scene) -> Verdict:
    """Check that the controller has filled in the data of a service account token Secret."""
    if scene.live.get("type") != "kubernetes.io/service-account-token" or scene.live.get("data"):
        return READY
    return Verdict(False, "Waiting for the token")


CONDITIONS = {
    "apiextensions.k8s.io/v1/CustomResourceDefinition": Condition(_check_crd, seconds=60.0),
    "apps/v1/DaemonSet": DAEMON_SET,
    "apps/v1/Deployment": DEPLOYMENT,
    "apps/v1/StatefulSet": STATEFUL_SET,
    "batch/v1/Job": JOB,
    "v1/PersistentVolume": VOLUME,
    "v1/PersistentVolumeClaim": CLAIM,
    "v1/Pod": POD_READY,
    "v1/ReplicationController": REPLICATION_CONTROLLER,
    "v1/ResourceQuota": Condition(_check_quota, seconds=60.0),
    "v1/Secret": Condition(_check_token_secret, seconds=5.0),
    "v1/Service": SERVICE,
}
