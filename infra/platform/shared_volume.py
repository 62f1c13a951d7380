"""Volumes of all jobs: in each job namespace one volume for each shared file system of the cluster, and one for the data that
namespaces share. A volume contains only the directory of its namespace, so pods of other namespaces cannot see it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pulumi
import pulumi_kubernetes as kubernetes

from infra.naming import COMPONENT, SHARED_CLAIM, VOLUME_LABEL, build_data_claim, build_namespace_directory
from infra.platform.site import Site

ANY_SIZE: Final = "1Pi"
"""Kubernetes requires a size, but no driver uses it: EFS grows on demand, and an NFS export has its own size."""
NFS_OPTIONS: Final = ("nfsvers=4.1", "hard", "noresvport")
"""With `hard`, a client retries until an unavailable server responds. With `soft`, its requests would fail, and a job
could read or write incomplete files."""


@dataclass(frozen=True)
class Volume:
    """Volumes with the same name in jobs: in each namespace a claim, on a directory of the file system."""

    claim: str = SHARED_CLAIM
    """Name of the claims."""
    sources: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Job namespace -> source of its PersistentVolume, with mount options; empty if a storage class provisions the volumes."""
    provisioner: str = ""
    """Storage class of the cluster that provisions a volume for each claim."""
    size: str = ANY_SIZE


@dataclass(frozen=True)
class NewDirectories:
    """Directories of a file system that have to be created before pods can mount them."""

    source: Mapping[str, Any]
    """Source of a PersistentVolume with the directories' parent directory."""
    private: Sequence[str]
    """Directories of namespaces, which the user of job images owns, and other users cannot read."""
    public: Sequence[str] = ()
    """Directories that all users can read. Those that exist already keep their owner."""
    owned: Sequence[str] = ()
    """Existing directories that get the user of job images as their owner."""
    as_root: bool = False
    """Whether only root can create the directories and change their owner."""


@dataclass(frozen=True)
class SharedFileSystem:
    """A shared file system, as jobs use it."""

    volumes: Sequence[Volume]
    directories: NewDirectories | None = None
    storage_classes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Job namespace -> its StorageClass, which creates a directory for each claim."""
    needs: Sequence[pulumi.Resource] = ()
    """Resources on which mounts depend: CSI driver, file system, security group rules. Pulumi deletes the volumes first."""


def build_nfs_file_system(
    server: str, path: str, namespaces: Sequence[str], data: str | None = None, writers: Sequence[str] = ()
) -> SharedFileSystem:
    """Return the file system of a directory exported by an NFS server. Pods mount a directory in it, never the directory
    itself. `data`: directory in it that all namespaces mount, read-only except for the namespaces `writers`."""

    def build_source(directory: str, *, read_only: bool = False) -> Mapping[str, Any]:
        options = [*NFS_OPTIONS, *(["ro"] if read_only else [])]
        return {"nfs": {"server": server, "path": f"{path.rstrip('/')}{directory}" or "/"}, "mount_options": options}

    private = {namespace: build_namespace_directory(namespace) for namespace in namespaces}
    volumes = [Volume(sources={namespace: build_source(directory) for namespace, directory in private.items()})]
    if data is not None:
        sources = {namespace: build_source(data, read_only=namespace not in writers) for namespace in namespaces}
        volumes.append(Volume(build_data_claim(SHARED_CLAIM), sources))
    public = [data] if data is not None else []
    return SharedFileSystem(volumes, NewDirectories(build_source(""), [*private.values()], public))


def build_volume_spec(source: Mapping[str, Any], namespace: str, claim: str) -> Any:
    """Return the spec of a PersistentVolume that is reserved for a claim."""
    return {
        "capacity": {"storage": ANY_SIZE},
        "access_modes": ["ReadWriteMany"],
        "persistent_volume_reclaim_policy": "Retain",
        "storage_class_name": "",
        "volume_mode": "Filesystem",
        **source,
        "claim_ref": {"api_version": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": claim},
    }


def build_claim_spec(size: str = ANY_SIZE, **selected: Any) -> Any:
    """Return the spec of a claim on the volume that `selected` describes."""
    return {"access_modes": ["ReadWriteMany"], "resources": {"requests": {"storage": size}}, **selected}


class SharedVolume(pulumi.ComponentResource):
    """Creates in each namespace a claim and, unless a storage class provisions it, the volume."""

    def __init__(
        self,
        name: str,
        site: Site,
        volume: Volume,
        needs: Sequence[pulumi.Resource],
        namespaces: Sequence[tuple[str, kubernetes.core.v1.Namespace]],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """`needs`: resources that mounts depend on. `namespaces`: name and Pulumi resource of each job namespace."""
        super().__init__(f"{COMPONENT}:SharedVolume", name, None, opts)
        self._name, self._site, self._volume, self._needs = name, site, volume, needs
        for namespace, resource in namespaces:
            self._create_claim(namespace, resource)
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
            spec=build_volume_spec(volume.sources[namespace], namespace, volume.claim),
            opts=pulumi.ResourceOptions.merge(site.options(self, *self._needs), recreated),
        )
