"""Fields that cannot be changed without replacing the object, from the official provider's table.

https://github.com/pulumi/pulumi-kubernetes/blob/master/provider/pkg/provider/diff.go
"""

from collections.abc import Mapping
from typing import Any

from localcloud.engine.kubernetes.objects import SECRET
from localcloud.engine.kubernetes.tokens import Kind
from localcloud.engine.paths import Path, covers, parse

IDENTITY = ("metadata.name", "metadata.namespace")
CONFIG_MAP = Kind("", "v1", "ConfigMap")


def _split_words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_VOLUME_SOURCES = _split_words(
    "awsElasticBlockStore azureDisk azureFile cephfs cinder csi fc flexVolume flocker gcePersistentDisk glusterfs hostPath "
    "iscsi local nfs photonPersistentDisk portworxVolume quobyte rbd scaleIO storageos vsphereVolume"
)
_POD = _split_words(
    "affinity automountServiceAccountToken dnsConfig dnsPolicy enableServiceLinks hostAliases hostIPC hostNetwork hostPID "
    "hostname imagePullSecrets nodeName nodeSelector overhead preemptionPolicy priority priorityClassName readinessGates "
    "restartPolicy runtimeClassName schedulerName securityContext serviceAccount serviceAccountName shareProcessNamespace "
    "subdomain terminationGracePeriodSeconds volumes"
)
_CONTAINER = _split_words(
    "args command env image imagePullPolicy lifecycle livenessProbe ports readinessProbe resources securityContext stdin "
    "stdinOnce terminationMessagePath terminationMessagePolicy tty volumeDevices volumeMounts workingDir"
)
_CONTAINERS = ("spec.containers[*]", "spec.initContainers[*]")

TABLE: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("apps", "DaemonSet"): ("spec.selector",),
    ("apps", "Deployment"): ("spec.selector",),
    ("apps", "StatefulSet"): (
        "spec.podManagementPolicy",
        "spec.revisionHistoryLimit",
        "spec.selector",
        "spec.serviceName",
        "spec.volumeClaimTemplates",
    ),
    ("batch", "Job"): ("spec.completions", "spec.parallelism", "spec.selector", "spec.template"),
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): ("roleRef",),
    ("rbac.authorization.k8s.io", "RoleBinding"): ("roleRef",),
    ("storage.k8s.io", "StorageClass"): ("parameters", "provisioner"),
    ("", "PersistentVolume"): tuple(f"spec.{source}" for source in _VOLUME_SOURCES),
    ("", "PersistentVolumeClaim"): ("spec.accessModes", "spec.selector", "spec.storageClassName", "spec.volumeName"),
    ("", "Pod"): (
        *(f"spec.{name}" for name in _POD),
        *(f"{containers}.{name}" for containers in _CONTAINERS for name in _CONTAINER),
    ),
    ("", "ResourceQuota"): ("spec.scopes",),
    ("", "Service"): ("spec.clusterIP",),
}
"""Immutable fields, keyed by API group and kind."""


def list_immutable_paths(obj: Mapping[str, Any], *, mutable_config_maps: bool, mutable_secrets: bool) -> list[Path]:
    """Return the paths of an object's immutable fields."""
    kind = Kind.from_manifest(obj)
    immutable = list(IDENTITY)
    if kind == SECRET:
        frozen = ("type", "stringData", "data") if not mutable_secrets or obj.get("immutable") is True else ("type",)
        immutable += frozen
    elif kind == CONFIG_MAP:
        immutable += ("binaryData", "data") if not mutable_config_maps or obj.get("immutable") is True else ()
    else:
        immutable += TABLE.get((kind.group, kind.kind), ())
    return [parse(pattern) for pattern in immutable]


def affects_pattern(pattern: Path, path: Path, value: Any) -> bool:
    """Return whether a change of `value` at `path` affects a field that matches the pattern."""
    if len(path) >= len(pattern):
        return covers(pattern, path)
    return covers(pattern[: len(path)], path) and _has_value_at(value, pattern[len(path) :])


def _has_value_at(value: Any, rest: Path) -> bool:
    if not rest:
        return True
    if rest[0] == "*":
        return isinstance(value, list) and any(_has_value_at(element, rest[1:]) for element in value)
    return isinstance(value, Mapping) and rest[0] in value and _has_value_at(value[rest[0]], rest[1:])
