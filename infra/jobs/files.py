"""Files of a submitted job on its shared volume: the folder that `submit` sends, and copies of the logs. Short-lived
pods read, write and remove these files, and a ConfigMap records them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from infra.config.messages import format_value
from infra.config.problems import Problem
from infra.jobs import storage
from infra.jobs.cluster import ClusterDescription
from infra.jobs.containers import build_helper_container
from infra.jobs.placed import Manifest, PlacedJob
from infra.jobs.pods import build_helper_pod
from infra.jobs.reading import JobRefused, validate_job
from infra.jobs.storage import ROLE
from infra.jobs.volumes import find_mount_path, list_writable_shared_mounts
from infra.naming import ROLE_LABEL

FOLDER: Final = ".gpumpi/jobs"
HELPER_MEMORY_MIB: Final = 256
HELPER_SECONDS: Final = 3600
"""Time limit of a pod that reads or writes the folder. After it, Kubernetes deletes the pod, even if the command that
created the pod was killed."""
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


def find_job_files(placed: PlacedJob, id: str) -> JobFiles | None:
    """Return the job's folder on the first cluster volume that the job mounts as writable; None if there is no such
    volume."""
    for mount in list_writable_shared_mounts(placed.job, placed.namespace):
        path = find_mount_path(mount, placed.namespace).rstrip("/")
        return JobFiles(f"{path}/{FOLDER}/{placed.namespace.name}", f"{placed.name}.{id}")
    return None


def build_waiting_job(placed: PlacedJob, id: str) -> Manifest:
    """Return a Job whose pod mounts the volume and waits for commands. The pod has no GPUs and none of the job's
    Secrets."""
    return _build_helper_job(placed, f"{ROLE}-{id}", ["/bin/sh", "-c", _WAIT, "wait", str(HELPER_SECONDS)])


def build_cleanup_job(placed: PlacedJob, files: JobFiles, id: str) -> Manifest:
    """Return a Job that removes the job's folder."""
    return _build_helper_job(placed, f"{ROLE}-{id}", ["/bin/sh", "-c", _REMOVE, "remove", files.folder])


def _build_helper_job(placed: PlacedJob, name: str, command: Sequence[str]) -> Manifest:
    volumes = list_writable_shared_mounts(placed.job, placed.namespace)[:1]
    alone = replace(placed, job=placed.job.model_copy(update={"volumes": volumes}))
    container = build_helper_container(alone, ROLE, command, memory_mib=HELPER_MEMORY_MIB)
    grace = {"terminationGracePeriodSeconds": 5}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": placed.build_queued_metadata(name, ROLE),
        "spec": {
            "activeDeadlineSeconds": HELPER_SECONDS,
            "backoffLimit": 3,
            "ttlSecondsAfterFinished": 0,
            "template": build_helper_pod(alone, ROLE, container, restartPolicy="OnFailure", **grace),
        },
    }


def build_folder_record(placed: PlacedJob, id: str) -> Manifest:
    """Return the ConfigMap that records the job's folder.

    Users of the namespace can change this ConfigMap. Therefore the ConfigMap contains no manifest and no path, only the values
    from which `parse_folder_record` derives them again.
    """
    job, (mount, *_) = placed.job, list_writable_shared_mounts(placed.job, placed.namespace)
    data = {"id": id, "volume": mount.name, "pool": job.pool, "image": job.image, "priority": job.priority or ""}
    if job.image_pull_secrets is not None:
        data["imagePullSecrets"] = " ".join(job.image_pull_secrets)
    return storage.build_record_config_map(placed, id, data)


def parse_folder_record(
    job: str, data: Mapping[str, str], cluster: ClusterDescription, namespace: str
) -> tuple[PlacedJob, JobFiles]:
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
    placed = validate_job(values, cluster)
    files = find_job_files(placed, data.get("id", "")) if _ID.fullmatch(data.get("id", "")) else None
    if files is None:
        raise JobRefused(
            [Problem("id", f"{format_value(data.get('id', ''))} is not the ID of a folder on a volume of the cluster.")]
        )
    return placed, files
