"""The shared file system as volumes: one in every namespace for jobs, and a class for whoever wants one of their own."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_kubernetes as kubernetes

from infra.naming import COMPONENT, GROUP_ID, SHARED_CLAIM, SHARED_DIRECTORY, USER_ID
from infra.platform.site import Site

DRIVER: Final = "efs.csi.aws.com"
STORAGE_CLASS: Final = "efs"
ANY_SIZE: Final = "1Pi"
"""EFS grows by itself and no driver looks at the figure; Kubernetes wants one."""


@dataclass(frozen=True)
class SharedVolumeArgs:
    site: Site
    file_system_id: pulumi.Input[str]
    access_point_id: pulumi.Input[str]
    namespaces: Sequence[tuple[str, pulumi.Resource]]
    """Their names, and what must be there before anything in them."""


class SharedVolume(pulumi.ComponentResource):
    """Creates:
    - in each namespace a claim on the directory that all jobs share, by the stack's access point, and the volume behind it
    - a storage class that makes a directory of its own for each claim
    """

    def __init__(self, name: str, args: SharedVolumeArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{COMPONENT}:SharedVolume", name, None, opts)
        self._name, self._args = name, args
        self._claims = [self._create_claim(namespace, home) for namespace, home in args.namespaces]
        kubernetes.storage.v1.StorageClass(
            f"{name}-class",
            metadata={"name": STORAGE_CLASS},
            provisioner=DRIVER,
            parameters={
                "provisioningMode": "efs-ap",
                "fileSystemId": args.file_system_id,
                "directoryPerms": "770",
                "uid": str(USER_ID),
                "gid": str(GROUP_ID),
                "basePath": f"{SHARED_DIRECTORY}-claims",
            },
            reclaim_policy="Delete",
            volume_binding_mode="Immediate",
            opts=args.site.options(self),
        )
        self.register_outputs({})

    def _create_claim(self, namespace: str, home: pulumi.Resource) -> pulumi.Resource:
        args = self._args
        handle = pulumi.Output.concat(args.file_system_id, "::", args.access_point_id)
        volume_name = f"{args.site.naming.cluster}-{namespace}-{SHARED_CLAIM}"
        volume = kubernetes.core.v1.PersistentVolume(
            f"{self._name}-{namespace}-volume",
            metadata={"name": volume_name},
            spec={
                "capacity": {"storage": ANY_SIZE},
                "access_modes": ["ReadWriteMany"],
                "persistent_volume_reclaim_policy": "Retain",
                "storage_class_name": "",
                "volume_mode": "Filesystem",
                "csi": {"driver": DRIVER, "volume_handle": handle},
                "claim_ref": {"api_version": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": SHARED_CLAIM},
            },
            opts=args.site.options(self),
        )
        return kubernetes.core.v1.PersistentVolumeClaim(
            f"{self._name}-{namespace}-claim",
            metadata={"name": SHARED_CLAIM, "namespace": namespace},
            spec={
                "access_modes": ["ReadWriteMany"],
                "storage_class_name": "",
                "volume_name": volume_name,
                "resources": {"requests": {"storage": ANY_SIZE}},
            },
            opts=args.site.options(self, volume, inside=home),
        )

    @property
    def claims(self) -> Sequence[pulumi.Resource]:
        return self._claims
