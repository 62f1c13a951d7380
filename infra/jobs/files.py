"""Files of a submitted job on its shared volume: the folder that `submit` sends, and copies of the logs.

Jobs of a stack have no such files: no client sends a folder, and the pods stay until the job is removed.
"""

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Final

from infra.config.messages import shown
from infra.config.problems import Problem
from infra.jobs.cluster import ClusterDescription
from infra.jobs.in_pods import text
from infra.jobs.model import Mount
from infra.jobs.pieces import Piece
from infra.jobs.pods import Manifest, PlacedJob, container, helper_resources, launcher_pod, user_containers, wanted_mounts
from infra.jobs.reading import JobRefused, judged
from infra.naming import ROLE_LABEL

ROLE: Final = "files"
"""Role label of the ConfigMap that records the job's folder, and of pods that read and write it."""
FOLDER: Final = ".gpumpi/jobs"
HELPER_MEMORY_MIB: Final = 256
HELPER_SECONDS: Final = 3600
"""Time limit of a pod that reads or writes the folder. After it, Kubernetes deletes the pod, even if the command that
created the pod was killed."""
LOG_LIMIT_MIB: Final = 100
"""Maximum size of the copy of one pod's log."""
SELECTOR: Final = {ROLE_LABEL: ROLE}

_ID: Final = re.compile(r"[0-9a-f]{8}")
_WAIT: Final = "trap 'exit 0' TERM; sleep \"$1\" & wait"
_REMOVE: Final = 'tries=0; until rm -rf "$1" || [ "$tries" -ge 20 ]; do tries=$((tries + 1)); sleep 3; done; [ ! -e "$1" ]'
"""Retries `rm`, because ranks that are still terminating may create files while it runs."""


@dataclass(frozen=True)
class JobFiles:
    """The folder of one submitted job on the job's shared volume."""

    jobs: str
    """Parent of the folders of all jobs in the namespace."""
    name: str

    @property
    def folder(self) -> str:
        return f"{self.jobs}/{self.name}"

    @property
    def workdir(self) -> str:
        return f"{self.folder}/workdir"

    @property
    def logs(self) -> str:
        return f"{self.folder}/logs"


def of(placed: PlacedJob, id: str) -> JobFiles | None:
    """Return the job's folder on the first cluster volume that the job mounts as writable; None if there is no such
    volume."""
    shared = {volume.name: volume.mount_path for volume in placed.namespace.volumes}
    for mount in _writable(placed):
        path = (mount.mount_path or shared[mount.name]).rstrip("/")
        return JobFiles(f"{path}/{FOLDER}/{placed.namespace.name}", f"{placed.job.name}.{id}")
    return None


def _writable(placed: PlacedJob) -> tuple[Mount, ...]:
    """Return the cluster's volumes that the job mounts as writable."""
    shared = {volume.name for volume in placed.namespace.volumes}
    return tuple(mount for mount in wanted_mounts(placed.job, placed.namespace) if mount.name in shared and not mount.read_only)


def used_by(pieces: Sequence[Piece], files: JobFiles, *, workdir: bool, logs: bool) -> list[Piece]:
    """Return copies of a job's objects, changed to start ranks in the uploaded folder and to copy logs to the volume."""
    made = [Piece(deepcopy(piece.manifest), piece.owner) for piece in pieces]
    for one in (one for piece in made for pod in rank_pods(piece.manifest) for one in user_containers(pod)):
        if workdir:
            one["workingDir"] = files.workdir
        if logs:
            _keep_log(one, files)
    return made


def rank_pods(manifest: Manifest) -> list[Manifest]:
    """Return the specs of the pods in a job's object that may run ranks."""
    spec: Mapping[str, Manifest] = manifest.get("spec", {})
    templates = [*(one["template"] for one in spec.get("mpiReplicaSpecs", {}).values()), spec.get("template", {})]
    return [template.get("spec", {}) for template in templates]


def _keep_log(one: Manifest, files: JobFiles) -> None:
    name = {"name": "GPUMPI_LOG_POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    values = {"GPUMPI_LOG": f"{files.logs}/$(GPUMPI_LOG_POD)", "GPUMPI_LOG_BLOCKS": str(LOG_LIMIT_MIB << 11)}
    one["env"] = [*one["env"], name, *({"name": key, "value": value} for key, value in values.items())]
    shell, option, script, *rest = one["command"]
    one["command"] = [shell, option, text("log.sh") + script, *rest]


def helper(placed: PlacedJob, id: str) -> Manifest:
    """Return a Job whose pod mounts the volume and waits for commands. The pod has no GPUs and none of the job's
    Secrets."""
    return _job(placed, f"{ROLE}-{id}", ["/bin/sh", "-c", _WAIT, "wait", str(HELPER_SECONDS)])


def remover(placed: PlacedJob, files: JobFiles, id: str) -> Manifest:
    """Return a Job that removes the job's folder."""
    return _job(placed, f"{ROLE}-{id}", ["/bin/sh", "-c", _REMOVE, "remove", files.folder])


def _job(placed: PlacedJob, name: str, command: Sequence[str]) -> Manifest:
    job = placed.job.model_copy(update={"env": {}, "secret_env": {}, "volumes": _writable(placed)[:1]})
    alone = replace(placed, job=job)
    main = container(alone, ROLE, command, {}, resources=helper_resources(alone, HELPER_MEMORY_MIB))
    pod = launcher_pod(alone, [main], restartPolicy="OnFailure") | {"terminationGracePeriodSeconds": 5}
    metadata = placed.queued_metadata(name, ROLE)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {
            "activeDeadlineSeconds": HELPER_SECONDS,
            "backoffLimit": 3,
            "ttlSecondsAfterFinished": 0,
            "template": {"metadata": {"labels": metadata["labels"]}, "spec": pod},
        },
    }


def record(placed: PlacedJob, id: str) -> Manifest:
    """Return a ConfigMap that outlives the job, so that the job's files can be read and removed afterwards.

    Users of the namespace can change it. So it contains no manifest and no path, only the values from which `recorded`
    derives them again.
    """
    job, (mount, *_) = placed.job, _writable(placed)
    data = {"id": id, "volume": mount.name, "pool": job.pool, "image": job.image, "priority": job.priority or ""}
    if job.image_pull_secrets is not None:
        data["imagePullSecrets"] = " ".join(job.image_pull_secrets)
    metadata = placed.metadata(f"{job.name}-{ROLE}-{id}", ROLE)
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def recorded(job: str, data: Mapping[str, str], cluster: ClusterDescription, namespace: str) -> tuple[PlacedJob, JobFiles]:
    """Return the job and the folder of a record, by the rules for job files. Raises JobRefused if a value is invalid."""
    described = cluster.namespace(namespace)
    priority = data.get("priority", "")
    values: dict[str, object] = {
        **{"name": job, "namespace": namespace, "workers": 1, "launcher": "standalone", "command": ["true"]},
        **{key: data.get(key, "") for key in ("pool", "image")},
        "volumes": [{"name": data.get("volume", "")}],
        "priority": priority if described and priority in described.priority_classes else None,
        "imagePullSecrets": data["imagePullSecrets"].split() if "imagePullSecrets" in data else None,
    }
    placed = PlacedJob.of(judged(values, cluster), cluster)
    files = of(placed, data.get("id", "")) if _ID.fullmatch(data.get("id", "")) else None
    if files is None:
        raise JobRefused([Problem("id", f"{shown(data.get('id', ''))} is not the ID of a folder on a volume of the cluster.")])
    return placed, files
