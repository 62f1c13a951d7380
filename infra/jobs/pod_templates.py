"""Pod templates with the job's `podOverrides`. Without `podOverrides`, templates stay unchanged."""

from typing import Any

from infra.jobs.pod_overrides import Affinity, PodOverrides, PodVolume, as_manifest
from infra.jobs.pods import USER_CONTAINERS, Manifest, PlacedJob


def overridden(placed: PlacedJob, role: str, template: Manifest) -> Manifest:
    """Return the template of a role, `worker` or `launcher`, with the job's additions."""
    wanted = dict(placed.job.pod_overrides.roles()).get(role)
    if wanted is None:
        return template
    metadata, spec = template["metadata"], template["spec"]
    more: Manifest = {
        "labels": {**wanted.labels, **metadata.get("labels", {})},
        "annotations": {**metadata.get("annotations", {}), **wanted.annotations},
    }
    return {
        **template,
        "metadata": {**metadata, **{key: value for key, value in more.items() if value}},
        "spec": _spec(spec, wanted),
    }


def _spec(spec: Manifest, wanted: PodOverrides) -> Manifest:
    changed = {**spec, "tolerations": [*spec["tolerations"], *map(as_manifest, wanted.tolerations)]}
    if wanted.affinity is not None:
        changed["affinity"] = _affinity(spec.get("affinity", {}), wanted.affinity)
    if wanted.image_pull_secrets is not None:
        changed["imagePullSecrets"] = [{"name": name} for name in wanted.image_pull_secrets]
    changed["volumes"] = [*spec["volumes"], *map(_volume, wanted.volumes)]
    for kind in ("initContainers", "containers"):
        if kind in spec:
            changed[kind] = [_container(one, wanted) for one in spec[kind]]
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


def _container(found: Manifest, wanted: PodOverrides) -> Manifest:
    if found["name"] not in USER_CONTAINERS:
        return found
    mounts = [
        {
            "name": one.name,
            "mountPath": one.mount_path,
            **({"subPath": one.sub_path} if one.sub_path else {}),
            **({"readOnly": True} if one.read_only else {}),
        }
        for one in wanted.volumes
    ]
    changed = {**found, "volumeMounts": [*found["volumeMounts"], *mounts]}
    if wanted.ports and found["name"] in ("launcher", "worker"):
        changed["ports"] = [*found.get("ports", []), *map(as_manifest, wanted.ports)]
    return changed
