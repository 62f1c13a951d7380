"""What `submit` stores for a job outside of its pods, and what the pods need to access it.

The job's folder is on a volume, or in an archive in the stack's bucket. Logs are copied to a volume, or to CloudWatch.
"""

from collections.abc import Mapping
from typing import Final

from infra.jobs.containers import NO_PARTS, PodParts, build_helper_container, to_env_list
from infra.jobs.in_pods import build_python_command, read_source
from infra.jobs.placed import Manifest, PlacedJob
from infra.naming import KEY_BUCKET_CONFIG, KEY_BUCKET_KEY, WORKDIR_KEYS

ROLE: Final = "files"
"""Role label of the ConfigMaps that record what is stored, and of pods that read and write folders."""
LOG_LIMIT_MIB: Final = 100
"""Maximum size of the copy of one pod's log."""
UNPACKED_FOLDER: Final = "/gpumpi/workdir"
"""Folder of the pod's own copy of an archive. Files that ranks write there are lost with the pod."""
PIPE: Final = "/tmp/log"
_POD_NAME: Final[Manifest] = {"name": "GPUMPI_LOG_POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
_VOLUME: Final = "workdir"
_UNPACK_MEMORY_MIB: Final = 256


def build_pod_parts(placed: PlacedJob) -> PodParts:
    """Return what pods that run the user's commands need for the job's folder and logs."""
    return _build_unpack_parts(placed) + _build_volume_log_parts(placed) + _build_cloudwatch_log_parts(placed)


def _build_volume_log_parts(placed: PlacedJob) -> PodParts:
    folder = placed.storage.logs
    if not folder:
        return NO_PARTS
    values = {"GPUMPI_LOG": f"{folder}/$(GPUMPI_LOG_POD)", "GPUMPI_LOG_BLOCKS": str(LOG_LIMIT_MIB << 11)}
    return PodParts(script=read_source("log.sh"), variables=(_POD_NAME, *to_env_list(values)))


# --- CloudWatch --------------------------------------------------------------------------------------------------------


def build_log_stream_prefix(namespace: str, job: str) -> str:
    """Return the prefix of the log streams of all runs of a job in CloudWatch Logs.

    A log stream is named `NAMESPACE/JOB/RUN/POD`. A pod's IAM role permits writes only to streams whose names contain the
    pod's own namespace and name.

    >>> build_log_stream_prefix("mpi-jobs", "mnist")
    'mpi-jobs/mnist/'
    """
    return f"{namespace}/{job}/"


def _build_cloudwatch_log_parts(placed: PlacedJob) -> PodParts:
    run = placed.storage.log_run
    if not run:
        return NO_PARTS
    values = {
        "GPUMPI_LOG_GROUP": placed.cluster.log_group,
        "GPUMPI_LOG_REGION": placed.cluster.region,
        "GPUMPI_LOG_STREAM": f"{build_log_stream_prefix(placed.namespace.name, placed.name)}{run}/$(GPUMPI_LOG_POD)",
        "GPUMPI_LOG_BYTES": str(LOG_LIMIT_MIB << 20),
        "GPUMPI_LOG": PIPE,
        "GPUMPI_LOG_BLOCKS": "unlimited",
    }
    program = f"cat > /tmp/send-log.py <<'END-OF-PROGRAM'\n{read_source('send_log.py')}END-OF-PROGRAM\n"
    script = program + read_source("send_log.sh") + read_source("log.sh")
    return PodParts(script=script, variables=(_POD_NAME, *to_env_list(values)))


# --- archive in the bucket ---------------------------------------------------------------------------------------------


def build_archive_prefix(namespace: str, digest: str) -> str:
    """Return the key prefix of all archives of the folder with this digest."""
    return f"{WORKDIR_KEYS}/{namespace}/{digest}/"


def _build_unpack_parts(placed: PlacedJob) -> PodParts:
    key = placed.storage.archive
    if not key:
        return NO_PARTS
    mount = {"name": _VOLUME, "mountPath": UNPACKED_FOLDER}
    unpack = build_helper_container(
        placed,
        _VOLUME,
        build_python_command("workdir_from_bucket.py", key, UNPACKED_FOLDER),
        memory_mib=_UNPACK_MEMORY_MIB,
        variables=[{"name": "GPUMPI_BUCKET", "valueFrom": build_bucket_name_source()}],
        mounts=[mount],
    )
    return PodParts(mounts=(mount,), volumes=({"name": _VOLUME, "emptyDir": {}},), init_containers=(unpack,))


def build_bucket_name_source() -> Manifest:
    """Return the source of a variable with the name of the stack's bucket."""
    return {"configMapKeyRef": {"name": KEY_BUCKET_CONFIG, "key": KEY_BUCKET_KEY}}


def build_record_config_map(placed: PlacedJob, id: str, data: Mapping[str, str]) -> Manifest:
    """Return a ConfigMap that outlives the job, so that what is stored can be read and removed afterwards."""
    metadata = placed.metadata(f"{placed.name}-{ROLE}-{id}", ROLE)
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": dict(data)}
