"""Find out why a cluster would reject a foreign manifest: Pod Security, and the cluster's admission control.

https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

from cli.clusters.kubernetes_access import Cluster
from cli.errors import CommandError
from cli.exit_codes import REFUSED
from infra.config.problems import Problem, format_path

Path = tuple[str | int, ...]
Level = Literal["restricted", "baseline"]

HOST: Final = ("hostNetwork", "hostPID", "hostIPC")
VOLUMES: Final = frozenset(
    {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
)
"""Volume types that `restricted` allows."""
BASELINE_CAPABILITIES: Final = frozenset(
    {
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP"),
        *("SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    }
)
"""https://kubernetes.io/docs/concepts/security/pod-security-standards/#baseline"""
SECCOMP: Final = ("RuntimeDefault", "Localhost")
IMPORT: Final = "`import` turns the manifest into a job file that complies."


def find_pod_specs(value: Any, path: Path = ()) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield the pod specs in a manifest of any kind, with their paths."""
    if isinstance(value, Mapping):
        if isinstance(value.get("containers"), list):
            yield path, value
        else:
            for key, inner in value.items():
                yield from find_pod_specs(inner, (*path, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from find_pod_specs(inner, (*path, number))


def find_violations(manifest: Mapping[str, Any], level: Level = "restricted") -> list[Problem]:
    """Return the violations of a Pod Security level in a manifest. Performs no I/O."""
    reasons = []
    for path, spec in find_pod_specs(manifest):
        reasons += [Problem(format_path((*path, *where)), f"{text} {IMPORT}") for where, text in find_pod_violations(spec, level)]
    return reasons


def find_pod_violations(spec: Mapping[str, Any], level: Level) -> Iterator[tuple[Path, str]]:
    for key in HOST:
        if spec.get(key):
            yield (key,), f"Pod Security ({level}) forbids it."
    for number, volume in enumerate(spec.get("volumes") or ()):
        for kind in volume.keys() - VOLUMES - {"name"} if level == "restricted" else volume.keys() & {"hostPath"}:
            yield ("volumes", number, kind), f"Pod Security ({level}) forbids this type of volume."
    outer = spec.get("securityContext") or {}
    for section in ("initContainers", "containers"):
        for number, container in enumerate(spec.get(section) or ()):
            missing = list(_CONTAINER[level](container.get("securityContext") or {}, outer))
            if missing:
                yield (section, number, "securityContext"), f"Pod Security ({level}) requires {', '.join(missing)}."
            for index, port in enumerate(container.get("ports") or ()):
                if port.get("hostPort"):
                    yield (section, number, "ports", index, "hostPort"), f"Pod Security ({level}) forbids host ports."


def check_restricted(own: Mapping[str, Any], pod: Mapping[str, Any]) -> Iterator[str]:
    if own.get("privileged"):
        yield "privileged: false"
    if own.get("allowPrivilegeEscalation") is not False:
        yield "allowPrivilegeEscalation: false"
    if "ALL" not in (own.get("capabilities") or {}).get("drop", ()):
        yield "capabilities: {drop: [ALL]}"
    if own.get("runAsNonRoot", pod.get("runAsNonRoot")) is not True:
        yield "runAsNonRoot: true"
    if own.get("runAsUser", pod.get("runAsUser")) == 0:
        yield "a runAsUser other than 0"
    if (own.get("seccompProfile") or pod.get("seccompProfile") or {}).get("type") not in SECCOMP:
        yield "seccompProfile: {type: RuntimeDefault}"


def check_baseline(own: Mapping[str, Any], pod: Mapping[str, Any]) -> Iterator[str]:
    if own.get("privileged"):
        yield "privileged: false"
    if added := sorted(set((own.get("capabilities") or {}).get("add") or ()) - BASELINE_CAPABILITIES):
        yield f"no capabilities beyond the container runtime's defaults (adds {', '.join(added)})"
    if (own.get("seccompProfile") or pod.get("seccompProfile") or {}).get("type") == "Unconfined":
        yield "a seccompProfile other than Unconfined"


_CONTAINER: Final = {"restricted": check_restricted, "baseline": check_baseline}


def find_rejections(manifest: Mapping[str, Any], cluster: Cluster, namespace: str) -> Iterator[Problem]:
    """Submit a pod from each pod template to the cluster's API server as a dry run, and yield the rejections. Creates
    nothing. Raises CommandError.
    """
    for path, spec in find_pod_specs(manifest):
        metadata = {"name": "gpumpi-dry-run", "namespace": namespace}
        restart = {"restartPolicy": "Never"} if spec.get("restartPolicy") not in ("Never", "OnFailure") else {}
        try:
            cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {**spec, **restart}}, dry_run=True)
        except CommandError as error:
            if error.code != REFUSED:
                raise
            reason = str(error).rpartition(metadata["name"])[2].lstrip(' ":') or error
            yield Problem(format_path(path), f"the cluster rejects the pod: {reason}")
