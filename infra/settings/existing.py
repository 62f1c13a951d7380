"""Settings of a stack for an existing cluster: the `gpumpi:` section of its file as frozen models.

Each field description states the meaning and, after "Change:", what a new value does to a live cluster. The table in
docs/reference/settings-existing.md is generated from these descriptions.
"""

from typing import Annotated, Literal

from pydantic import Field

from infra.config.models import Model, MountPath
from infra.jobs.model import StackJobs
from infra.naming import Naming
from infra.settings.platform import ExistingPlatformSettings
from infra.settings.storage import SHARED_DATA, SharedData
from infra.settings.users import KubernetesUser


class Kubeconfig(Model):
    """Kubeconfig with which Pulumi accesses the cluster. Pulumi's state never contains the kubeconfig's content."""

    path: str | None = Field(
        None,
        description="Path of the kubeconfig, absolute or starting with `~/`; by default the file in KUBECONFIG, or else "
        "`~/.kube/config`. Change: in place; a kubeconfig of another cluster moves the stack to that cluster.",
    )
    context: str | None = Field(
        None,
        description="Context in the kubeconfig; the current context by default. "
        "Change: in place; a context of another cluster moves the stack to that cluster.",
    )


class SystemNodes(Model):
    """Nodes that run operators and job launchers."""

    node_selector: dict[str, str] = Field(
        {},
        description="Labels of the nodes that run operators and job launchers; by default any node that accepts pods without "
        "tolerations. Change: restarts the operators; affects jobs submitted later.",
    )


class ExistingTarget(Model):
    """An existing Kubernetes cluster."""

    kind: Literal["existing"] = Field(
        examples=["existing"],
        description="Kind of stack: `existing` deploys only into an existing cluster. "
        "Change: not supported; create another stack.",
    )
    kubeconfig: Kubeconfig = Field(Kubeconfig(), description="How to reach the cluster. Change: see the individual fields.")
    system: SystemNodes = Field(
        SystemNodes(), description="Nodes that run operators and job launchers. Change: see the individual fields."
    )
    users: Annotated[tuple[KubernetesUser, ...], Field(strict=False)] = Field(
        (),
        description="Users and groups of the cluster that run jobs without being cluster admins. "
        "Change: in place; a removed user loses access.",
    )


class LabeledPool(Model):
    """A pool of identical nodes, selected by their labels."""

    name: str = Field(
        examples=["rack1"],
        description="Pool name: a unique DNS label of at most 20 characters. "
        "Change: jobs must use the new name; replaces the pool's objects in the queue.",
    )
    node_selector: dict[str, str] = Field(
        examples=['{example.com/rack: "1"}'],
        description="Labels that only the nodes of this pool have. Change: in place; affects jobs started later.",
    )
    gpus_per_node: int = Field(
        examples=[8],
        description="NVIDIA GPUs per node; 0 for CPU nodes. Change: in place; affects jobs submitted later.",
    )
    rdma_resource: str | None = Field(
        None,
        description="Resource of the RDMA device plugin on these nodes, such as `rdma/hca_shared_devices_a`; for "
        "`platform.transport: infiniband`. Change: in place; affects jobs submitted later.",
    )
    nodes: int = Field(
        examples=[4], description="Number of nodes with these labels, which sets the capacity of the queue. Change: in place."
    )


class NoVolume(Model):
    """No shared volume."""

    kind: Literal["none"] = "none"


class Nfs(Model):
    """An NFS export. NFS export; nodes need the NFS client (package nfs-common)."""

    kind: Literal["nfs"]
    server: str = Field(
        examples=["10.0.0.5"],
        description="Host name or IP address of the NFS server. Change: replaces the volumes; the data is kept.",
    )
    path: str = Field(
        examples=["/export/jobs"],
        description="The exported directory, in which user 1000 must have write permission: each namespace gets a directory in "
        "it. Change: replaces the volumes; the data is kept.",
    )
    mount_path: MountPath = Field("/shared", description="Mount path in jobs. Change: in place; affects jobs started later.")
    shared_data: SharedData | None = Field(None, description=SHARED_DATA)


class ClassOfStorage(Model):
    """A StorageClass of the cluster that provisions ReadWriteMany volumes."""

    kind: Literal["storage-class"]
    name: str = Field(
        examples=["cephfs"],
        description="Name of a StorageClass that provisions ReadWriteMany volumes. "
        "Change: replaces the volumes; the class's reclaim policy decides whether their data is kept.",
    )
    size: str = Field(
        "100Gi",
        description="Size of the volume in each namespace. "
        "Change: in place if the StorageClass allows expansion; volumes cannot shrink.",
    )
    mount_path: MountPath = Field("/shared", description="Mount path in jobs. Change: in place; affects jobs started later.")


SharedVolume = Annotated[NoVolume | Nfs | ClassOfStorage, Field(discriminator="kind")]


class ExistingSettings(Model):
    """All settings of a stack for an existing cluster."""

    stack: str = Field(exclude=True, description="The stack's name.")
    target: ExistingTarget = Field(examples=["{kind: existing}"], description="Kind of stack. Change: see the individual fields.")
    storage: SharedVolume = Field(
        NoVolume(),
        description="A ReadWriteMany volume in each job namespace: `nfs`, `storage-class` or `none`. "
        "Change: `none` deletes the PersistentVolumeClaims.",
    )
    pools: Annotated[tuple[LabeledPool, ...], Field(strict=False)] = Field(
        (), description="Node pools. Change: in place; jobs on a removed pool keep running."
    )
    platform: ExistingPlatformSettings = Field(
        ExistingPlatformSettings(),
        description="Software that runs in the cluster alongside jobs. Change: see the individual fields.",
    )
    jobs: StackJobs = ()

    @property
    def cluster_name(self) -> str:
        return Naming(self.stack).cluster

    @property
    def installs_platform(self) -> bool:
        """Always true: the platform is all that a stack of this kind installs."""
        return True

    @property
    def mount_path(self) -> str | None:
        """Mount path of the shared volume in jobs; None without a shared volume."""
        return None if isinstance(self.storage, NoVolume) else self.storage.mount_path
