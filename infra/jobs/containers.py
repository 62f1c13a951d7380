"""Containers of a job's pods. They comply with the Pod Security Standard `restricted`.

`UserContainer` describes the container of a user's command. Everything that such commands can rely on is added here,
for every launcher and for `setup`. Helper containers exchange keys, unpack files and clean up.

https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from infra.jobs.in_pods import build_shell_command, read_source
from infra.jobs.placed import Manifest, PlacedJob, Role
from infra.jobs.pod_overrides import PodOverrides, PodVolume, to_manifest
from infra.jobs.sizing import build_resources, format_mib
from infra.jobs.volumes import build_container_mounts

LAUNCHER_CPU_MILLIS, LAUNCHER_CPU_LIMIT, LAUNCHER_MEMORY_MIB = 250, "2", 1024
"""Enough memory for `mpirun` on hundreds of hosts. Load data in the ranks, not in the launcher."""
HELPER_CPU_MILLIS, HELPER_CPU_LIMIT, HELPER_MEMORY_MIB = 20, "200m", 64
STARTED_SECONDS: Final = 300
"""Time limit for a worker to accept a connection, after which Kubernetes restarts it."""

NODE_NAME: Final[Manifest] = {"name": "GPUMPI_NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}
"""Environment variable with the node's name. Pod names do not show which pods share a node."""
SHARED_MEMORY: Final[Manifest] = {"name": "dshm", "mountPath": "/dev/shm"}
PROGRESS_FILE: Final = "GPUMPI_PROGRESS_FILE"
FLIGHT_RECORDER: Final = {
    "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000",
    "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/tmp/nccl_trace_rank_",
    "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": "/tmp/nccl_dump_rank_",
}
"""https://docs.pytorch.org/docs/stable/torch_nccl_environment_variables.html

PyTorch 2.11 still reads the first two variables, but warns that their names are deprecated. Older versions do not read
the new names.
"""
NEW_NAMES: Final = {
    "TORCH_NCCL_TRACE_BUFFER_SIZE": "TORCH_FR_BUFFER_SIZE",
    "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "TORCH_FR_DUMP_TEMP_FILE",
}


@dataclass(frozen=True)
class PodParts:
    """Additions to a pod, and to its container that runs the user's command."""

    script: str = ""
    """Shell script that runs in the container before the container's own script."""
    variables: tuple[Manifest, ...] = ()
    mounts: tuple[Manifest, ...] = ()
    volumes: tuple[Manifest, ...] = ()
    init_containers: tuple[Manifest, ...] = ()

    def __add__(self, other: "PodParts") -> "PodParts":
        return PodParts(**{name: value + getattr(other, name) for name, value in vars(self).items()})


NO_PARTS: Final = PodParts()


@dataclass(frozen=True)
class UserContainer:
    """The container that runs a user's command: a rank's, the launcher's, or that of `setup`."""

    role: Role
    script: str
    """Name of the script in in_pods/ that runs the command."""
    arguments: Sequence[str]
    resources: Manifest
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that the job's own `env` may override."""
    parts: PodParts = NO_PARTS
    more: Manifest = field(default_factory=dict)
    """Further fields of the container, such as probes."""
    ports: tuple[Manifest, ...] = ()

    def build_manifest(self, placed: PlacedJob, additions: PodOverrides, parts: PodParts) -> Manifest:
        """Return the container, with the user's additions to pods of its role, and with the pod's additions."""
        job = placed.job
        ports = [*self.ports, *(map(to_manifest, additions.ports) if self.role != "setup" else ())]
        secrets = [
            {"name": key, "valueFrom": {"secretKeyRef": {"name": secret.name, "key": secret.key}}}
            for key, secret in job.secret_env.items()
        ]
        folder = placed.storage.workdir or job.working_dir
        return {
            **_build_base_container(placed, self.role, build_shell_command(self.script, *self.arguments, before=parts.script)),
            "env": [*to_env_list({**_build_user_variables(placed), **self.env, **job.env}), *secrets, *parts.variables],
            **({"envFrom": [to_manifest(source) for source in job.env_from]} if job.env_from else {}),
            **({"workingDir": folder} if folder else {}),
            "volumeMounts": [*_list_mounts(placed), *parts.mounts, *map(_build_mount, additions.volumes)],
            **({"ports": ports} if ports else {}),
            "resources": self.resources,
            **self.more,
        }


def build_role_parts(placed: PlacedJob, role: Role) -> PodParts:
    """Return the parts that all pods of a role have: those that ranks need, and those that the job controller reads."""
    parts = NO_PARTS
    if role == "worker":
        memory = {"name": "dshm", "emptyDir": {"medium": "Memory", "sizeLimit": format_mib(placed.size.shared_memory_mib)}}
        parts += PodParts(variables=(NODE_NAME,), mounts=(SHARED_MEMORY,), volumes=(memory,))
    if placed.job.progress is None:
        return parts
    if role == placed.launcher.roles[0] and placed.job.progress.file:  # the controller reads only this role's log
        variable = {"name": PROGRESS_FILE, "value": placed.job.progress.file}
        parts += PodParts(script=read_source("progress_file.sh"), variables=(variable,))
    if role == "worker" and placed.size.gpus:
        parts += PodParts(
            variables=tuple(to_env_list(_build_flight_recorder_variables({*placed.job.env, *placed.job.secret_env})))
        )
    return parts


def _build_flight_recorder_variables(names: Collection[str]) -> dict[str, str]:
    """Return the variables that make PyTorch record its last collectives, and dump them when the controller diagnoses a
    hung job. Variables of the job take precedence."""
    return {name: value for name, value in FLIGHT_RECORDER.items() if name not in names and NEW_NAMES.get(name) not in names}


def build_helper_container(
    placed: PlacedJob,
    name: str,
    command: Sequence[str],
    *,
    memory_mib: int = HELPER_MEMORY_MIB,
    variables: Sequence[Manifest] = (),
    mounts: Sequence[Manifest] = (),
    **more: object,
) -> Manifest:
    """Return a container that runs no command of the user, so it has neither the job's `env` nor its Secrets."""
    return {
        **_build_base_container(placed, name, command),
        "env": [*to_env_list(_build_user_variables(placed)), *variables],
        "volumeMounts": [*_list_mounts(placed), *mounts],
        "resources": build_resources(
            HELPER_CPU_MILLIS, HELPER_CPU_LIMIT, {"memory": format_mib(memory_mib)}, _cpu_request_factor(placed)
        ),
        **more,
    }


def build_launcher_resources(placed: PlacedJob) -> Manifest:
    return build_resources(
        LAUNCHER_CPU_MILLIS, LAUNCHER_CPU_LIMIT, {"memory": format_mib(LAUNCHER_MEMORY_MIB)}, _cpu_request_factor(placed)
    )


def build_worker_resources(placed: PlacedJob) -> Manifest:
    return placed.size.resources(_cpu_request_factor(placed))


def to_env_list(values: Mapping[str, str]) -> list[Manifest]:
    return [{"name": name, "value": value} for name, value in values.items()]


def _cpu_request_factor(placed: PlacedJob) -> float:
    return placed.cluster.cpu_request_factor


def _build_base_container(placed: PlacedJob, name: str, command: Sequence[str]) -> Manifest:
    image = placed.cluster.image(placed.job.image)
    return {
        "name": name,
        "image": image,
        # Always pull tags, so that all nodes run the same image even if the tag has moved.
        "imagePullPolicy": "IfNotPresent" if "@sha256:" in image else "Always",
        "command": list(command),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": not placed.job.writable_root,
        },
    }


def _build_user_variables(placed: PlacedJob) -> dict[str, str]:
    """Return the user's name: programs look it up, and third-party images have no entry for user 1000."""
    return {"HOME": placed.job.home, "USER": placed.job.user, "LOGNAME": placed.job.user}


def _list_mounts(placed: PlacedJob) -> list[Manifest]:
    return [*build_container_mounts(placed.job, placed.namespace), {"name": "tmp", "mountPath": "/tmp"}]


def _build_mount(volume: PodVolume) -> Manifest:
    return {
        "name": volume.name,
        "mountPath": volume.mount_path,
        **({"subPath": volume.sub_path} if volume.sub_path else {}),
        **({"readOnly": True} if volume.read_only else {}),
    }
