"""Pod templates with the job's `podOverrides`. Without `podOverrides`, templates stay unchanged."""

from typing import Any

from infra.jobs.model import Job
from infra.jobs.pod_overrides import Affinity, PodOverrides, PodVolume, as_manifest
from infra.jobs.pods import SETUP_CONTAINERS, USER_CONTAINERS, Manifest, PlacedJob, user_containers


def overridden(placed: PlacedJob, role: str, template: Manifest) -> Manifest:
    """Return the template of a role, `worker`, `launcher` or `setup`, with the job's additions."""
    of_setup = _of_setup(placed.job)
    additions = {**dict(placed.job.pod_overrides.roles()), "setup": of_setup}.get(role, PodOverrides())
    metadata, spec = template["metadata"], template["spec"]
    more: Manifest = {
        "labels": {**additions.labels, **metadata.get("labels", {})},
        "annotations": {**metadata.get("annotations", {}), **additions.annotations},
    }
    return {
        **template,
        "metadata": {**metadata, **{key: value for key, value in more.items() if value}},
        "spec": _spec(spec, additions, of_setup),
    }


def _of_setup(job: Job) -> PodOverrides:
    """Return the additions for `setup`: those of the launcher, and the workers' volumes, because `setup` has the same
    volumes as the ranks. Jobs without a launcher have only the workers' additions. The pod of `setup` may run on another
    pool than the workers, so their affinity does not apply."""
    worker, launcher = job.pod_overrides.worker or PodOverrides(), job.pod_overrides.launcher or PodOverrides()
    own = worker.model_copy(update={"affinity": None}) if job.launcher == "torchrun" else launcher
    used = {name for volume in own.volumes for name in (volume.name, volume.mount_path.rstrip("/"))}
    more = [volume for volume in worker.volumes if not used & {volume.name, volume.mount_path.rstrip("/")}]
    return own.model_copy(update={"volumes": (*own.volumes, *more)})


def _spec(spec: Manifest, additions: PodOverrides, of_setup: PodOverrides) -> Manifest:
    changed = {**spec, "tolerations": [*spec["tolerations"], *map(as_manifest, additions.tolerations)]}
    if additions.affinity is not None:
        changed["affinity"] = _affinity(spec.get("affinity", {}), additions.affinity)
    if additions.image_pull_secrets is not None:
        changed["imagePullSecrets"] = [{"name": name} for name in additions.image_pull_secrets]
    runs_setup = any(container["name"] in SETUP_CONTAINERS for container in user_containers(spec))
    volumes = {volume.name: volume for volume in (*additions.volumes, *(of_setup.volumes if runs_setup else ()))}
    changed["volumes"] = [*spec["volumes"], *map(_volume, volumes.values())]
    for kind in ("initContainers", "containers"):
        if kind in spec:
            changed[kind] = [
                _container(container, of_setup if container["name"] in SETUP_CONTAINERS else additions)
                for container in spec[kind]
            ]
    return changed


def _affinity(ours: Manifest, theirs: Affinity) -> Manifest:
    """Return the union of both affinities. `onePerNode` adds a required term, so the required terms of both affinities
    apply."""
    merged: dict[str, Any] = as_manifest(theirs)
    for kind, terms in ours.items():
        added = merged.get(kind, {})
        merged[kind] = {**added, **{key: [*value, *added.get(key, [])] for key, value in terms.items()}}
    return merged


def _volume(one: PodVolume) -> Manifest:
    return {"name": one.name, **as_manifest(one, "name", "mount_path", "sub_path", "read_only")}


def _container(found: Manifest, additions: PodOverrides) -> Manifest:
    if found["name"] not in USER_CONTAINERS:
        return found
    mounts = [
        {
            "name": one.name,
            "mountPath": one.mount_path,
            **({"subPath": one.sub_path} if one.sub_path else {}),
            **({"readOnly": True} if one.read_only else {}),
        }
        for one in additions.volumes
    ]
    changed = {**found, "volumeMounts": [*found["volumeMounts"], *mounts]}
    if additions.ports and found["name"] in ("launcher", "worker"):
        changed["ports"] = [*found.get("ports", []), *map(as_manifest, additions.ports)]
    return changed
