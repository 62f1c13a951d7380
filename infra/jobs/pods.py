"""Pods of a job, with the additions of its `podOverrides`."""

from typing import Final

from infra.jobs import storage
from infra.jobs.cluster import PoolDescription
from infra.jobs.containers import NO_PARTS, PodParts, UserContainer, build_role_parts
from infra.jobs.placed import Manifest, PlacedJob, Role
from infra.jobs.pod_overrides import PodOverrides, PodVolume, to_manifest
from infra.jobs.volumes import build_pod_volumes
from infra.naming import GROUP_ID, USER_ID, build_job_labels

SAFE_TO_EVICT: Final = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
"""Keep the cluster autoscaler from evicting pods: a job that loses a pod loses its progress since the last checkpoint."""

LOST_NODE_SECONDS: Final = 30
"""How long a pod stays bound to a lost node. With Kubernetes' default, the job would wait five minutes."""


def build_user_pod(placed: PlacedJob, user: UserContainer, **spec: object) -> Manifest:
    """Return the template of pods that run the user's commands. Workers run on the job's pool, other pods on the
    launcher pool."""
    role, additions = user.role, _select_overrides(placed, user.role)
    parts = storage.build_pod_parts(placed) + build_role_parts(placed, role) + user.parts
    parts += PodParts(volumes=tuple(map(_build_volume, additions.volumes)))
    pod = _build_pod_spec(
        placed, placed.pool if role == "worker" else placed.launcher_pool, user.build_manifest(placed, additions, parts), parts
    )
    pod["tolerations"] += map(to_manifest, additions.tolerations)
    if affinity := _build_affinity(placed, role, additions):
        pod["affinity"] = affinity
    if additions.image_pull_secrets is not None:
        pod["imagePullSecrets"] = _to_name_objects(additions.image_pull_secrets)
    metadata = {
        "labels": {**additions.labels, **placed.labels(role)},
        "annotations": {**SAFE_TO_EVICT, **additions.annotations},
    }
    return {"metadata": metadata, "spec": {**pod, **spec}}


def build_helper_pod(placed: PlacedJob, role: str, container: Manifest, **spec: object) -> Manifest:
    """Return the template of a pod that runs no command of the user."""
    pod = _build_pod_spec(placed, placed.launcher_pool, container, NO_PARTS)
    metadata = {"labels": placed.labels(role), "annotations": dict(SAFE_TO_EVICT)}
    return {"metadata": metadata, "spec": {**pod, **spec}}


def _build_pod_spec(placed: PlacedJob, pool: PoolDescription, container: Manifest, parts: PodParts) -> Manifest:
    job = placed.job
    # https://kubernetes.io/docs/tasks/configure-pod-container/pull-image-private-registry/
    pull_secrets = placed.cluster.image_pull_secrets if job.image_pull_secrets is None else job.image_pull_secrets
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "serviceAccountName": placed.namespace.service_account,
        **({"priorityClassName": job.priority} if job.priority else {}),
        **({"imagePullSecrets": _to_name_objects(pull_secrets)} if pull_secrets else {}),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER_ID,
            "runAsGroup": GROUP_ID,
            "fsGroup": GROUP_ID,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "terminationGracePeriodSeconds": job.termination_grace_period_seconds,
        "nodeSelector": pool.node_selector,
        "tolerations": _build_tolerations(pool),
        **({"initContainers": list(parts.init_containers)} if parts.init_containers else {}),
        "containers": [container],
        "volumes": [*build_pod_volumes(job, placed.namespace), {"name": "tmp", "emptyDir": {}}, *parts.volumes],
    }


def _to_name_objects(names: tuple[str, ...]) -> list[Manifest]:
    return [{"name": name} for name in names]


def _build_tolerations(pool: PoolDescription) -> list[Manifest]:
    lost_node = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": LOST_NODE_SECONDS}
    return [
        *({"key": taint.key, "operator": "Exists", "effect": taint.effect} for taint in pool.taints),
        *({"key": f"node.kubernetes.io/{state}", **lost_node} for state in ("not-ready", "unreachable")),
    ]


# --- podOverrides ------------------------------------------------------------------------------------------------------


def _select_overrides(placed: PlacedJob, role: Role) -> PodOverrides:
    """Return the additions to pods of a role.

    `setup` has the launcher's additions, and the workers' volumes, because it mounts the same volumes as the ranks. Jobs without
    a launcher have only the workers' additions. `setup` may run on another pool than the workers, so their affinity does not
    apply.
    """
    worker, launcher = placed.job.pod_overrides.worker or PodOverrides(), placed.job.pod_overrides.launcher or PodOverrides()
    if role != "setup":
        return worker if role == "worker" else launcher
    own = launcher if "launcher" in placed.launcher.roles else worker.model_copy(update={"affinity": None})
    used = {key for volume in own.volumes for key in (volume.name, volume.mount_path.rstrip("/"))}
    more = [volume for volume in worker.volumes if not used & {volume.name, volume.mount_path.rstrip("/")}]
    return own.model_copy(update={"volumes": (*own.volumes, *more)})


def _build_affinity(placed: PlacedJob, role: Role, additions: PodOverrides) -> Manifest:
    """Return the user's affinity and that of `onePerNode`, whose required term applies in addition to the user's."""
    affinity: Manifest = to_manifest(additions.affinity) if additions.affinity is not None else {}
    if role == "worker" and placed.job.one_per_node:
        selector = {"matchLabels": build_job_labels(placed.name, role="worker")}
        apart, required = affinity.get("podAntiAffinity", {}), "requiredDuringSchedulingIgnoredDuringExecution"
        term = {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}
        affinity["podAntiAffinity"] = {**apart, required: [term, *apart.get(required, [])]}
    return affinity


def _build_volume(volume: PodVolume) -> Manifest:
    return {"name": volume.name, **to_manifest(volume, "name", "mount_path", "sub_path", "read_only")}
