"""Volumes of all jobs: in each job namespace, one volume for each shared file system of the cluster."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pulumi
import pulumi_kubernetes as kubernetes

from infra.naming import COMPONENT, SHARED_CLAIM, VOLUME_LABEL
from infra.platform.site import Site

ANY_SIZE: Final = "1Pi"
"""Kubernetes requires a size, but no driver uses it: EFS grows on demand, and an NFS export has its own size."""
NFS_OPTIONS: Final = ("nfsvers=4.1", "hard", "noresvport")
"""With `hard`, a client retries until an unavailable server responds. With `soft`, its requests would fail, and a job
could read or write incomplete files."""


@dataclass(frozen=True)
class Volume:
    """A volume of all jobs, with a claim in each namespace."""

    source: Mapping[str, Any] = field(default_factory=dict)
    """Source of a PersistentVolume, with mount options; empty if a storage class provisions the volume."""
    claim: str = SHARED_CLAIM
    """Name of the claims."""
    provisioner: str = ""
    """Storage class of the cluster that provisions a volume for each claim."""
    size: str = ANY_SIZE
    owned: Sequence[str] = ()
    """Directories that the job images' user must own, because only root can write to them at first."""
    storage_class: Mapping[str, Any] | None = None
    """StorageClass that creates a separate directory for each claim, if the driver supports that."""
    needs: Sequence[pulumi.Resource] = ()
    """Resources on which mounts depend: CSI driver, file system, security group rules. Pulumi deletes the volumes first."""


def build_nfs_volume(server: str, path: str) -> Volume:
    """Return a directory exported by an NFS server."""
    return Volume({"nfs": {"server": server, "path": path}, "mount_options": list(NFS_OPTIONS)})


def build_volume_spec(volume: Volume, namespace: str, claim: str) -> Any:
    """Return the spec of a PersistentVolume that is reserved for a claim."""
    return {
        "capacity": {"storage": ANY_SIZE},
        "access_modes": ["ReadWriteMany"],
        "persistent_volume_reclaim_policy": "Retain",
        "storage_class_name": "",
        "volume_mode": "Filesystem",
        **volume.source,
        "claim_ref": {"api_version": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": claim},
    }


def build_claim_spec(size: str = ANY_SIZE, **selected: Any) -> Any:
    """Return the spec of a claim on the volume that `selected` describes."""
    return {"access_modes": ["ReadWriteMany"], "resources": {"requests": {"storage": size}}, **selected}


class SharedVolume(pulumi.ComponentResource):
    """Creates:
    - in each namespace a claim on the shared volume, and the volume itself unless a storage class provisions it
    - a storage class that creates a separate directory for each claim, if the driver supports that
    """

    def __init__(
        self,
        name: str,
        site: Site,
        volume: Volume,
        namespaces: Sequence[tuple[str, kubernetes.core.v1.Namespace]],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`namespaces`: name and Pulumi resource of each job namespace."""
        super().__init__(f"{COMPONENT}:SharedVolume", name, None, opts)
        self._name, self._site, self._volume = name, site, volume
        for namespace, resource in namespaces:
            self._create_claim(namespace, resource)
        if volume.storage_class is not None:
            spec: Any = volume.storage_class
            kubernetes.storage.v1.StorageClass(f"{name}-class", **spec, opts=site.options(self, *volume.needs))
        self.register_outputs({})

    def _create_claim(self, namespace: str, namespace_resource: kubernetes.core.v1.Namespace) -> None:
        volume, site = self._volume, self._site
        metadata: Any = {"name": volume.claim, "namespace": namespace}
        behind: list[pulumi.Resource] = []
        if volume.provisioner:
            spec = build_claim_spec(volume.size, storage_class_name=volume.provisioner)
            # Do not wait for the binding: a storage class may provision the volume only when the first pod uses the claim.
            metadata["annotations"] = {"pulumi.com/skipAwait": "true"}
        else:
            # Select the volume by label, not by `volume_name`. With `volume_name`, two workers of Kubernetes' volume
            # binder would update the volume at the same time, and the API server would reject one of the updates.
            # Binding would then finish only in the next resync, up to 15 seconds later (syncVolume in Kubernetes'
            # pv_controller.go).
            label = VOLUME_LABEL.format(claim=volume.claim)
            spec = build_claim_spec(storage_class_name="", selector={"match_labels": {label: namespace}})
            behind.append(self._create_volume(namespace, namespace_resource, label))
        kubernetes.core.v1.PersistentVolumeClaim(
            f"{self._name}-{namespace}-claim",
            metadata=metadata,
            spec=spec,
            opts=site.options(self, *behind, inside=namespace_resource),
        )

    def _create_volume(self, namespace: str, namespace_resource: kubernetes.core.v1.Namespace, label: str) -> pulumi.Resource:
        """Create the volume, and recreate it with its namespace. Otherwise the retained volume would stay reserved for
        the UID of the deleted claim, and the new claim would wait forever. The file system keeps the data.
        """
        volume, site = self._volume, self._site
        recreated = pulumi.ResourceOptions(
            replacement_trigger=namespace_resource.metadata.apply(lambda metadata: metadata.uid),
            delete_before_replace=True,  # the replacement gets the same name
        )
        return kubernetes.core.v1.PersistentVolume(
            f"{self._name}-{namespace}-volume",
            metadata={"name": f"{site.naming.cluster}-{namespace}-{volume.claim}", "labels": {label: namespace}},
            spec=build_volume_spec(volume, namespace, volume.claim),
            opts=pulumi.ResourceOptions.merge(site.options(self, *volume.needs), recreated),
        )
