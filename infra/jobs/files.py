"""Files of a submitted job on its shared volume: the folder that `submit` sends, and copies of the logs.

Jobs of a stack have no such files: no client sends a folder, and the pods stay until the job is removed.
"""

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Final

from infra.jobs.in_pods import text
from infra.jobs.pieces import Piece
from infra.jobs.pods import Manifest, PlacedJob, container, helper_resources, launcher_pod, user_containers, wanted_mounts
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
    for mount in wanted_mounts(placed.job, placed.namespace):
        if mount.name in shared and not mount.read_only:
            path = (mount.mount_path or shared[mount.name]).rstrip("/")
            return JobFiles(f"{path}/{FOLDER}/{placed.namespace.name}", f"{placed.job.name}.{id}")
    return None


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
    shared = {volume.name for volume in placed.namespace.volumes}
    mounts = tuple(mount for mount in wanted_mounts(placed.job, placed.namespace) if mount.name in shared and not mount.read_only)
    job = placed.job.model_copy(update={"env": {}, "secret_env": {}, "volumes": mounts[:1]})
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


def record(placed: PlacedJob, files: JobFiles, id: str) -> Manifest:
    """Return a ConfigMap that outlives the job, so that the job's files can be read and removed afterwards."""
    data = {
        "folder": files.folder,
        "helper.json": json.dumps(helper(placed, id)),
        "remover.json": json.dumps(remover(placed, files, id)),
    }
    metadata = placed.metadata(f"{placed.job.name}-{ROLE}-{id}", ROLE)
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
