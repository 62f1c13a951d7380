"""Rules for users' additions to the pods of a job: `podOverrides`, `envFrom`, `workingDir`."""

import re
from collections.abc import Iterator
from typing import Final

from infra.config.messages import format_value
from infra.config.problems import Problem
from infra.jobs import mpi, rank_environment
from infra.jobs.model import Job
from infra.jobs.placed import Launcher
from infra.jobs.pod_overrides import VOLUME_KINDS, PodOverrides, PodVolume
from infra.jobs.volumes import find_home_problem, find_path_problem

RESERVED_LABELS: Final = ("gpumpi.io/", "app.kubernetes.io/managed-by", "kueue.x-k8s.io/", "training.kubeflow.org/")
"""Prefixes of labels that the launchers, the MPI operator and the queue set."""
OUR_VOLUMES: Final = ("tmp", "dshm", "hosts")
OUR_PATHS: Final = ("/tmp", "/dev/shm", mpi.HOSTFILE_DIRECTORY)
FILES_IN_USE: Final = frozenset(
    {
        *("group", "host.conf", "hostname", "hosts", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ld.so.preload"),
        *("libibverbs.d", "localtime", "nsswitch.conf", "os-release", "pam.d", "passwd", "profile"),
        *("profile.d", "resolv.conf", "security", "services", "shadow", "shells", "ssh", "ssl", "sudoers", "sudoers.d"),
    }
)
"""Names in /etc that Kubernetes, sshd, the dynamic linker, TLS or RDMA libraries need."""

# https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#syntax-and-character-set
_LABEL_NAME = r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_LABEL_PREFIX = r"(?=.{1,253}/)[a-z0-9]([a-z0-9.-]*[a-z0-9])?/"
_LABEL_KEY = re.compile(rf"({_LABEL_PREFIX})?{_LABEL_NAME}")
_LABEL_VALUE = re.compile(rf"({_LABEL_NAME})?")
_DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def check_overrides(job: Job, launcher: Launcher) -> Iterator[Problem]:
    for role, additions in job.pod_overrides.roles():
        path = f"podOverrides.{role}"
        if role not in launcher.roles:
            yield Problem(path, f"has no effect, because jobs with launcher {launcher.name} have only workers. Remove it.")
            continue
        yield from _check_override_labels(additions, path)
        yield from _check_tolerations(additions, path)
        yield from _check_ports(additions, path)
        yield from _check_volumes(job, launcher, additions, path)


def _check_override_labels(additions: PodOverrides, path: str) -> Iterator[Problem]:
    for key, value in additions.labels.items():
        where = f"{path}.labels.{key}"
        if key.startswith(RESERVED_LABELS):
            yield Problem(where, "is set by the launcher or the queue. Remove it.")
        else:
            yield from check_label_syntax(where, key, value)
    for key in additions.annotations:
        if key.startswith("gpumpi.io/"):
            yield Problem(f"{path}.annotations.{key}", "is set by the launcher. Remove it.")


def check_label_syntax(where: str, key: str, value: str) -> Iterator[Problem]:
    """Check a label's syntax."""
    if not _LABEL_KEY.fullmatch(key):
        yield Problem(where, "is not a valid label key. Use one such as team or example.com/team.")
    if not _LABEL_VALUE.fullmatch(value):
        fix = "Use at most 63 letters, digits and inner - _ ."
        yield Problem(where, f"{format_value(value)} is not a valid label value. {fix}")


def _check_tolerations(additions: PodOverrides, path: str) -> Iterator[Problem]:
    for index, toleration in enumerate(additions.tolerations):
        where = f"{path}.tolerations[{index}]"
        if toleration.operator == "Exists" and toleration.value is not None:
            yield Problem(f"{where}.value", "is not allowed with operator: Exists. Remove one of them.")
        if toleration.key is None and toleration.operator != "Exists":
            yield Problem(f"{where}.key", "is missing. Add it, or set operator: Exists to tolerate all taints.")
        if toleration.toleration_seconds is not None and toleration.effect != "NoExecute":
            yield Problem(f"{where}.tolerationSeconds", "needs effect: NoExecute. Set it, or remove tolerationSeconds.")


def _check_ports(additions: PodOverrides, path: str) -> Iterator[Problem]:
    for index, port in enumerate(additions.ports):
        where, number = f"{path}.ports[{index}].containerPort", port.container_port
        if not 0 < number < 65536:
            yield Problem(where, f"{number} is not a port. Use 1 to 65535.")
        elif number in (mpi.SSH_PORT, rank_environment.MASTER_PORT):
            yield Problem(where, f"{number} is used by the launcher. Use another port.")


def _check_volumes(job: Job, launcher: Launcher, additions: PodOverrides, path: str) -> Iterator[Problem]:
    names = set(OUR_VOLUMES)
    paths = {*OUR_PATHS, *(mount.mount_path.rstrip("/") for mount in job.volumes or () if mount.mount_path)}
    for index, volume in enumerate(additions.volumes):
        where, mounted = f"{path}.volumes[{index}]", volume.mount_path.rstrip("/")
        if not _DNS_LABEL.fullmatch(volume.name) or volume.name.startswith("gpumpi-"):
            fix = "Use lowercase letters, digits and inner hyphens, and do not begin with gpumpi-."
            yield Problem(f"{where}.name", f"{format_value(volume.name)} is not a valid name. {fix}")
        elif volume.name in names:
            yield Problem(f"{where}.name", f"{format_value(volume.name)} is already the name of a volume. Choose another.")
        if volume.host_path is not None:
            fix = "Use emptyDir, or list a claim under the job's volumes."
            yield Problem(f"{where}.hostPath", f"Pod Security forbids hostPath volumes in jobs. {fix}")
        elif len(volume.volume_kinds) != 1:
            kinds = ", ".join(str(PodVolume.model_fields[kind].alias) for kind in VOLUME_KINDS)
            yield Problem(where, f"has {len(volume.volume_kinds)} volume sources. Set exactly one of {kinds}.")
        if mounted in paths:
            yield Problem(f"{where}.mountPath", f"{format_value(volume.mount_path)} is in use. Choose another.")
        elif wrong := _find_path_problem(volume, job, launcher):
            yield Problem(f"{where}.mountPath", f"{format_value(volume.mount_path)} {wrong}. Use a path such as /data.")
        names.add(volume.name)
        paths.add(mounted)


def _find_path_problem(volume: PodVolume, job: Job, launcher: Launcher) -> str | None:
    """Return what is wrong with a mount path; None if it is valid. ConfigMaps and Secrets may be mounted below /etc."""
    own = re.fullmatch(r"/etc/([\w.-]+)(/[\w.-]+)*", volume.mount_path.rstrip("/"))
    if own is None or own[1] in (".", "..") or (volume.config_map is None and volume.secret is None):
        path = volume.mount_path
        return find_path_problem(path) or (find_home_problem(path, job.home) if launcher.uses_ssh else None)
    return "would hide files that the pod needs" if own[1] in FILES_IN_USE else None


def check_env_from(job: Job) -> Iterator[Problem]:
    for index, source in enumerate(job.env_from):
        if (source.config_map_ref is None) == (source.secret_ref is None):
            yield Problem(f"envFrom[{index}]", "must have exactly one source. Set configMapRef or secretRef.")


def check_working_dir(job: Job) -> Iterator[Problem]:
    if job.working_dir is not None and job.workdir is not None:
        fix = "Remove one, or let the command start with `cd` to the other folder."
        yield Problem("workingDir", f"cannot be combined with workdir: ranks start in the folder that workdir sends. {fix}")
    elif job.working_dir is not None and not job.working_dir.startswith("/"):
        yield Problem("workingDir", f"{format_value(job.working_dir)} is not an absolute path. Use one such as /shared/code.")
