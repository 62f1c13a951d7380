"""What jobs share as volumes: one in every namespace for jobs and, on EFS, a class for whoever wants one of their own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pulumi
import pulumi_kubernetes as kubernetes

from infra.naming import COMPONENT, GROUP_ID, SHARED_CLAIM, SHARED_DIRECTORY, SHARED_VOLUME_LABEL, USER_ID
from infra.platform.site import Site

DRIVER: Final = "efs.csi.aws.com"
STORAGE_CLASS: Final = "efs"
ANY_SIZE: Final = "1Pi"
"""EFS grows by itself, an export is as large as it is, and no driver looks at the figure; Kubernetes wants one."""
NFS_OPTIONS: Final = ("nfsvers=4.1", "hard", "noresvport")
"""A server that is away for a moment is waited for: with `soft` a job would read or write half of a file."""


@dataclass(frozen=True)
class EfsVolume:
    """A file system of AWS, by an access point."""

    file_system_id: pulumi.Input[str]
    access_point_id: pulumi.Input[str]


@dataclass(frozen=True)
class NfsVolume:
    """A directory that a server exports."""

    server: str
    path: str


@dataclass(frozen=True)
class VolumeOfClass:
    """What a storage class of the cluster makes for each claim."""

    storage_class: str
    size: str


@dataclass(frozen=True)
class SharedVolumeArgs:
    site: Site
    volume: EfsVolume | NfsVolume | VolumeOfClass
    namespaces: Sequence[tuple[str, pulumi.Resource]]
    """Their names, and what must be there before anything in them."""


class SharedVolume(pulumi.ComponentResource):
    """Creates:
    - in each namespace a claim on the volume that all jobs share, and the volume behind it where no class makes one
    - on EFS a storage class that makes a directory of its own for each claim
    """

    def __init__(self, name: str, args: SharedVolumeArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{COMPONENT}:SharedVolume", name, None, opts)
        self._name, self._args = name, args
        self._claims = [self._create_claim(namespace, home) for namespace, home in args.namespaces]
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
            opts=self._args.site.options(self),
        )

    def _create_claim(self, namespace: str, home: pulumi.Resource) -> pulumi.Resource:
        volume, site = self._args.volume, self._args.site
        if isinstance(volume, VolumeOfClass):
            asked: Any = {"storage_class_name": volume.storage_class, "resources": _size(volume.size)}
            behind: tuple[pulumi.Resource, ...] = ()
        else:
            name = f"{site.naming.cluster}-{namespace}-{SHARED_CLAIM}"
            # not by `volume_name`: with it the binder's two workers write the volume at once, one of them is refused, and only
            # its next round, up to 15 seconds later, ends the binding (syncVolume in Kubernetes' pv_controller.go)
            asked = {
                "storage_class_name": "",
                "selector": {"match_labels": {SHARED_VOLUME_LABEL: namespace}},
                "resources": _size(ANY_SIZE),
            }
            behind = (self._create_volume(namespace, name, _source(volume)),)
        # a class may wait for the first pod, which this program does not start
        unawaited = {"annotations": {"pulumi.com/skipAwait": "true"}} if isinstance(volume, VolumeOfClass) else {}
        metadata: Any = {"name": SHARED_CLAIM, "namespace": namespace, **unawaited}
        asked["access_modes"] = ["ReadWriteMany"]
        return kubernetes.core.v1.PersistentVolumeClaim(
            f"{self._name}-{namespace}-claim",
            metadata=metadata,
            spec=asked,
            opts=site.options(self, *behind, inside=home),
        )

    def _create_volume(self, namespace: str, name: str, source: Mapping[str, Any]) -> pulumi.Resource:
        spec: Any = {
            "capacity": {"storage": ANY_SIZE},
            "access_modes": ["ReadWriteMany"],
            "persistent_volume_reclaim_policy": "Retain",
            "storage_class_name": "",
            "volume_mode": "Filesystem",
            **source,
            "claim_ref": {"api_version": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": SHARED_CLAIM},
        }
        return kubernetes.core.v1.PersistentVolume(
            f"{self._name}-{namespace}-volume",
            metadata={"name": name, "labels": {SHARED_VOLUME_LABEL: namespace}},
            spec=spec,
            opts=self._args.site.options(self),
        )

    @property
    def claims(self) -> Sequence[pulumi.Resource]:
        return self._claims


def _size(amount: str) -> dict[str, dict[str, str]]:
    return {"requests": {"storage": amount}}


def _source(volume: EfsVolume | NfsVolume) -> dict[str, Any]:
    """Where a persistent volume is."""
    if isinstance(volume, NfsVolume):
        return {"nfs": {"server": volume.server, "path": volume.path}, "mount_options": list(NFS_OPTIONS)}
    handle = pulumi.Output.concat(volume.file_system_id, "::", volume.access_point_id)
    return {"csi": {"driver": DRIVER, "volume_handle": handle}}
