"""Dynamic provisioning (provisioningMode efs-ap): defines an access point and a volume for each claim. Performs no I/O.

https://github.com/kubernetes-sigs/aws-efs-csi-driver/blob/master/docs/README.md: storage class parameters
"""

import re
import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from localcloud.kubernetes.efs_csi import DRIVER

Json = dict[str, Any]

CLUSTER_TAG = "efs.csi.aws.com/cluster"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
STORAGE_PROVISIONER = "volume.kubernetes.io/storage-provisioner"
"""Annotation with which Kubernetes requests a claim's volume from a provisioner."""
_GROUPS = range(50_000, 7_000_001)
_PERMISSIONS = re.compile(r"[0-7]{3,4}")
_LONGEST_PATH, _MOST_LEVELS = 100, 4
_PATTERN = re.compile(r"\$\{([^}]*)\}")
_PARAMETERS = {
    "provisioningMode",
    "fileSystemId",
    "directoryPerms",
    "uid",
    "gid",
    "gidRangeStart",
    "gidRangeEnd",
    "basePath",
    "subPathPattern",
    "ensureUniqueDirectory",
}
_NOT_HERE = {"az", "reuseAccessPoint", "crossaccount", "enforceZoneAffinity", "enableTagging"}
"""Parameters of the real driver that are not emulated. A storage class that sets one of them is rejected."""


class Unprovisionable(Exception):
    """No volume can be created. The message describes the error in the storage class or the claim."""


@dataclass(frozen=True)
class Wanted:
    """The access point to create for a claim."""

    file_system: str
    uid: int
    gid: int
    path: str
    permissions: str
    token: str

    def request(self) -> Json:
        """Return the parameters for CreateAccessPoint."""
        return {
            "ClientToken": self.token,
            "FileSystemId": self.file_system,
            "PosixUser": {"Uid": self.uid, "Gid": self.gid},
            "RootDirectory": {
                "Path": self.path,
                "CreationInfo": {"OwnerUid": self.uid, "OwnerGid": self.gid, "Permissions": self.permissions},
            },
            "Tags": [{"Key": CLUSTER_TAG, "Value": "true"}],
        }


def parse_file_system_id(storage_class: Mapping[str, Any]) -> str:
    """Return the storage class's file system ID. This function is called first, so it also validates the parameters."""
    parameters: Mapping[str, str] = storage_class.get("parameters") or {}
    for name in sorted(parameters):
        if name in _NOT_HERE:
            raise Unprovisionable(f"the local EFS CSI driver does not emulate the parameter {name}")
        if name not in _PARAMETERS:
            raise Unprovisionable(f"Unknown parameter {name}")
    if parameters.get("provisioningMode") != "efs-ap":
        raise Unprovisionable(f"Provisioning mode {parameters.get('provisioningMode', '')} is not supported. Use efs-ap")
    if not parameters.get("fileSystemId"):
        raise Unprovisionable("Missing fileSystemId parameter")
    return parameters["fileSystemId"]


def plan_access_point(storage_class: Mapping[str, Any], claim: Mapping[str, Any], taken_groups: Collection[int]) -> Wanted:
    """Return the access point to create. `taken_groups`: GIDs in use by the file system's access points."""
    file_system = parse_file_system_id(storage_class)
    parameters: Mapping[str, str] = storage_class["parameters"]
    permissions = parameters.get("directoryPerms", "")
    if not _PERMISSIONS.fullmatch(permissions):
        raise Unprovisionable(f'directoryPerms must be an octal number such as "700" (got {permissions!r})')
    gid = _parse_number(parameters, "gid")
    if gid is None:
        gid = _find_free_gid(parameters, taken_groups)
    uid = _parse_number(parameters, "uid")
    name = build_volume_name(claim)
    return Wanted(file_system, gid if uid is None else uid, gid, _build_path(parameters, claim, name), permissions, name)


def build_volume_name(claim: Mapping[str, Any]) -> str:
    return f"pvc-{claim['metadata']['uid']}"


def build_volume(storage_class: Mapping[str, Any], claim: Mapping[str, Any], handle: str) -> Json:
    """Return the PersistentVolume, which Kubernetes can bind only to this claim."""
    metadata, spec = claim["metadata"], claim["spec"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": build_volume_name(claim), "annotations": {PROVISIONED_BY: DRIVER}},
        "spec": {
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "accessModes": spec["accessModes"],
            "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy", "Delete"),
            "storageClassName": storage_class["metadata"]["name"],
            "mountOptions": storage_class.get("mountOptions") or [],
            "volumeMode": "Filesystem",
            "csi": {"driver": DRIVER, "volumeHandle": handle},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
        },
    }


def must_provision(claim: Mapping[str, Any]) -> bool:
    """True if the claim is waiting for this driver to provision its volume."""
    metadata = claim["metadata"]
    return (
        metadata.get("annotations", {}).get(STORAGE_PROVISIONER) == DRIVER
        and not claim["spec"].get("volumeName")
        and "deletionTimestamp" not in metadata
    )


def must_delete(persistent: Mapping[str, Any]) -> bool:
    """True if this driver created the volume and must now delete it and its access point."""
    return (
        persistent.get("status", {}).get("phase") == "Released"
        and persistent["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
        and persistent["metadata"].get("annotations", {}).get(PROVISIONED_BY) == DRIVER
        and "deletionTimestamp" not in persistent["metadata"]
    )


def _build_path(parameters: Mapping[str, str], claim: Mapping[str, Any], name: str) -> str:
    pattern = parameters.get("subPathPattern")
    if pattern is None:
        below = name
    else:
        below = _PATTERN.sub(lambda match: _expand_variable(match[1], claim, name), pattern).strip("/")
        if parameters.get("ensureUniqueDirectory", "true") == "true":
            below = f"{below}-{uuid.UUID(claim['metadata']['uid'])}"
    path = "/".join(["", *(part for part in f"{parameters.get('basePath', '')}/{below}".split("/") if part)])
    if len(path) > _LONGEST_PATH or path.count("/") > _MOST_LEVELS:
        raise Unprovisionable(
            f"Proposed path '{path}' exceeds EFS limits: {_LONGEST_PATH} characters and {_MOST_LEVELS} directories"
        )
    return path


def _expand_variable(name: str, claim: Mapping[str, Any], volume: str) -> str:
    """Return the value of one variable of a subPathPattern."""
    metadata = claim["metadata"]
    values = {".PVC.name": metadata["name"], ".PVC.namespace": metadata["namespace"], ".PV.name": volume}
    if name not in values:
        variables = ", ".join(f"${{{variable}}}" for variable in values)
        raise Unprovisionable(f"subPathPattern contains the unknown variable ${{{name}}}. Use {variables}")
    return str(values[name])


def _find_free_gid(parameters: Mapping[str, str], taken: Collection[int]) -> int:
    first, last = _parse_number(parameters, "gidRangeStart"), _parse_number(parameters, "gidRangeEnd")
    if (first is None) != (last is None):
        raise Unprovisionable("gidRangeStart and gidRangeEnd must be set together")
    groups = _GROUPS if first is None or last is None else range(first, last + 1)
    free = next((group for group in groups if group not in taken), None)
    if free is None:
        raise Unprovisionable(f"no group ID from {groups.start} to {groups.stop - 1} is free")
    return free


def _parse_number(parameters: Mapping[str, str], name: str) -> int | None:
    text = parameters.get(name)
    if text is None:
        return None
    if not text.isdigit():
        raise Unprovisionable(f"{name} must be a number (got {text!r})")
    return int(text)
