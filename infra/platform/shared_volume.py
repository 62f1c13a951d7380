"""Shared volumes for jobs: one volume in each job namespace and, on EFS, a storage class for separate volumes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pulumi
import pulumi_kubernetes as kubernetes

from infra.naming import COMPONENT, GROUP_ID, SHARED_CLAIM, SHARED_DIRECTORY, SHARED_VOLUME_LABEL, USER_ID
from infra.platform.site import Site

DRIVER: Final = "efs.csi.aws.com"
LUSTRE_DRIVER: Final = "fsx.csi.aws.com"
LUSTRE_OPTIONS: Final = ("flock",)
"""`flock` lets processes on different nodes lock files, as HDF5 and SQLite do."""
STORAGE_CLASS: Final = "efs"
ANY_SIZE: Final = "1Pi"
"""Kubernetes requires a size, but no driver uses it: EFS grows on demand, and an NFS export has its own size."""
NFS_OPTIONS: Final = ("nfsvers=4.1", "hard", "noresvport")
"""With `hard`, a client retries until an unavailable server responds. With `soft`, its requests would fail, and a job
could read or write incomplete files."""


@dataclass(frozen=True)
class EfsVolume:
    """EFS file system, mounted through an access point."""

    file_system_id: pulumi.Input[str]
    access_point_id: pulumi.Input[str]


@dataclass(frozen=True)
class LustreVolume:
    """FSx for Lustre file system."""

    file_system_id: pulumi.Input[str]
    dns_name: pulumi.Input[str]
    mount_name: pulumi.Input[str]


@dataclass(frozen=True)
class NfsVolume:
    """Directory exported by an NFS server."""

    server: str
    path: str


@dataclass(frozen=True)
class StorageClassVolume:
    """Volume that one of the cluster's storage classes provisions for each claim."""

    storage_class: str
    size: str


@dataclass(frozen=True)
class SharedVolumeArgs:
    site: Site
    volume: EfsVolume | LustreVolume | NfsVolume | StorageClassVolume
    namespaces: Sequence[tuple[str, kubernetes.core.v1.Namespace]]
    """Name and Pulumi resource of each job namespace."""
    after: Sequence[pulumi.Resource] = ()
    """Resources that mounts depend on. Pulumi deletes the volumes before these resources."""
    claim: str = SHARED_CLAIM
    """Name of the claim in each namespace."""
    label: str = SHARED_VOLUME_LABEL
    """Label that a claim uses to select its volume."""


class SharedVolume(pulumi.ComponentResource):
    """Creates:
    - in each namespace a claim on the shared volume, and the volume itself unless a storage class provisions it
    - on EFS a storage class that creates a separate directory for each claim
    """

    def __init__(self, name: str, args: SharedVolumeArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{COMPONENT}:SharedVolume", name, None, opts)
        self._name, self._args = name, args
        self._claims = [self._create_claim(namespace, resource) for namespace, resource in args.namespaces]
        if isinstance(args.volume, EfsVolume):
            self._create_class(args.volume)
        self.register_outputs({})

    def _create_class(self, volume: EfsVolume) -> None:
        kubernetes.storage.v1.StorageClass(
            f"{self._name}-class",
            metadata={"name": STORAGE_CLASS},
            provisioner=DRIVER,
            parameters={
                "provisioningMode": "efs-ap",
                "fileSystemId": volume.file_system_id,
                "directoryPerms": "770",
                "uid": str(USER_ID),
                "gid": str(GROUP_ID),
                "basePath": f"{SHARED_DIRECTORY}-claims",
            },
            reclaim_policy="Delete",
            volume_binding_mode="Immediate",
            opts=self._args.site.options(self, *self._args.after),
        )

    def _create_claim(self, namespace: str, namespace_resource: kubernetes.core.v1.Namespace) -> pulumi.Resource:
        volume, site = self._args.volume, self._args.site
        if isinstance(volume, StorageClassVolume):
            claim: Any = {"storage_class_name": volume.storage_class, "resources": _size(volume.size)}
            behind: tuple[pulumi.Resource, ...] = ()
        else:
            name = f"{site.naming.cluster}-{namespace}-{self._args.claim}"
            # Select the volume by label, not by `volume_name`. With `volume_name`, two workers of Kubernetes' volume
            # binder would update the volume at the same time, and the API server would reject one of the updates.
            # Binding would then finish only in the next resync, up to 15 seconds later (syncVolume in Kubernetes'
            # pv_controller.go).
            claim = {
                "storage_class_name": "",
                "selector": {"match_labels": {self._args.label: namespace}},
                "resources": _size(ANY_SIZE),
            }
            behind = (self._create_volume(namespace, namespace_resource, name, source_of(volume)),)
        # Do not wait for the binding: a storage class may provision the volume only when the first pod uses the claim.
        unawaited = {"annotations": {"pulumi.com/skipAwait": "true"}} if isinstance(volume, StorageClassVolume) else {}
        metadata: Any = {"name": self._args.claim, "namespace": namespace, **unawaited}
        claim["access_modes"] = ["ReadWriteMany"]
        return kubernetes.core.v1.PersistentVolumeClaim(
            f"{self._name}-{namespace}-claim",
            metadata=metadata,
            spec=claim,
            opts=site.options(self, *behind, inside=namespace_resource),
        )

    def _create_volume(
        self, namespace: str, namespace_resource: kubernetes.core.v1.Namespace, name: str, source: Mapping[str, Any]
    ) -> pulumi.Resource:
        """Create the volume, and recreate it with its namespace. Otherwise the retained volume would stay reserved for
        the UID of the deleted claim, and the new claim would wait forever. The file system keeps the data.
        """
        recreated = pulumi.ResourceOptions(
            replacement_trigger=namespace_resource.metadata.apply(lambda metadata: metadata.uid),
            delete_before_replace=True,  # the replacement has the same name
        )
        spec: Any = {
            "capacity": {"storage": ANY_SIZE},
            "access_modes": ["ReadWriteMany"],
            "persistent_volume_reclaim_policy": "Retain",
            "storage_class_name": "",
            "volume_mode": "Filesystem",
            **source,
            "claim_ref": {"api_version": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": self._args.claim},
        }
        return kubernetes.core.v1.PersistentVolume(
            f"{self._name}-{namespace}-volume",
            metadata={"name": name, "labels": {self._args.label: namespace}},
            spec=spec,
            opts=pulumi.ResourceOptions.merge(self._args.site.options(self, *self._args.after), recreated),
        )

    @property
    def claims(self) -> Sequence[pulumi.Resource]:
        return self._claims


def _size(amount: str) -> dict[str, dict[str, str]]:
    return {"requests": {"storage": amount}}


def source_of(volume: EfsVolume | LustreVolume | NfsVolume) -> dict[str, Any]:
    """Return the CSI or NFS source of a PersistentVolume, with its mount options."""
    if isinstance(volume, LustreVolume):
        attributes = {"dnsname": volume.dns_name, "mountname": volume.mount_name}
        source = {"driver": LUSTRE_DRIVER, "volume_handle": volume.file_system_id, "volume_attributes": attributes}
        return {"csi": source, "mount_options": list(LUSTRE_OPTIONS)}
    if isinstance(volume, NfsVolume):
        return {"nfs": {"server": volume.server, "path": volume.path}, "mount_options": list(NFS_OPTIONS)}
    handle = pulumi.Output.concat(volume.file_system_id, "::", volume.access_point_id)
    return {"csi": {"driver": DRIVER, "volume_handle": handle}}
