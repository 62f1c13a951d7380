"""Settings of a stack for an existing cluster: the `gpumpi:` part of its file as frozen models.

Every field carries its meaning and, after "Change:", what a new value does to a live cluster; the table in
docs/on-premises.md is checked against these texts.
"""

from typing import Annotated, Literal

from pydantic import Field

from infra.jobs.model import Job
from infra.naming import Naming
from infra.settings.base import Model, MountPath
from infra.settings.platform import CommonPlatformSettings


class Kubeconfig(Model):
    """How to reach the cluster. The file's content does not enter Pulumi's state."""

    path: str | None = Field(
        None,
        description="The kubeconfig: an absolute path, or one from `~/`; by default what KUBECONFIG names, else "
        "`~/.kube/config`. Change: in place; a file of another cluster moves everything there.",
    )
    context: str | None = Field(
        None,
        description="Its context; by default its current one. Change: in place; one of another cluster moves everything there.",
    )


class SystemNodes(Model):
    """Where operators and launchers of jobs run."""

    node_selector: dict[str, str] = Field(
        {},
        description="Labels of the nodes for operators and launchers of jobs; any node that takes pods without tolerations by "
        "default. Change: restarts the operators; jobs submitted later.",
    )


class ExistingTarget(Model):
    """A Kubernetes cluster that exists already."""

    kind: Literal["existing"] = Field(
        examples=["existing"],
        description="What is built: only what runs inside the cluster. Change: not supported; create another stack.",
    )
    kubeconfig: Kubeconfig = Field(Kubeconfig(), description="How the cluster is reached. Change: see its fields.")
    system: SystemNodes = Field(SystemNodes(), description="Where operators and launchers run. Change: see its fields.")


class LabeledPool(Model):
    """Nodes of one kind, found by their labels."""

    name: str = Field(
        examples=["rack1"],
        description="DNS label, at most 20 characters, unique. Change: jobs name the new one; the queue's part is replaced.",
    )
    node_selector: dict[str, str] = Field(
        examples=['{example.com/rack: "1"}'],
        description="Labels that all nodes of the pool have and no other node. Change: in place, for jobs started later.",
    )
    gpus_per_node: int = Field(
        examples=[8],
        description="NVIDIA GPUs of each node; 0 for CPU nodes. Change: in place, for jobs submitted later.",
    )
    nodes: int = Field(
        examples=[4], description="Number of nodes with the labels: the capacity that the queue hands out. Change: in place."
    )


class NoVolume(Model):
    """Jobs share nothing."""

    kind: Literal["none"] = "none"


class Nfs(Model):
    """A directory that a server exports by NFS; nodes need the client (package nfs-common)."""

    kind: Literal["nfs"]
    server: str = Field(
        examples=["10.0.0.5"], description="Name or address of the NFS server. Change: replaces the volumes; data stay."
    )
    path: str = Field(examples=["/export/jobs"], description="The exported directory. Change: replaces the volumes; data stay.")
    mount_path: MountPath = Field("/shared", description="Where jobs mount it. Change: in place, for jobs started later.")


class ClassOfStorage(Model):
    """A storage class of the cluster that gives volumes which many nodes mount."""

    kind: Literal["storage-class"]
    name: str = Field(
        examples=["cephfs"],
        description="A storage class whose volumes are ReadWriteMany. "
        "Change: replaces the volumes; the class says whether their data stay.",
    )
    size: str = Field(
        "100Gi", description="Size of each namespace's volume. Change: in place if the class allows it, and only larger."
    )
    mount_path: MountPath = Field("/shared", description="Where jobs mount it. Change: in place, for jobs started later.")


SharedVolume = Annotated[NoVolume | Nfs | ClassOfStorage, Field(discriminator="kind")]


class ExistingSettings(Model):
    """All settings of a stack for an existing cluster."""

    stack: str = Field(exclude=True, description="The stack's name.")
    target: ExistingTarget = Field(examples=["{kind: existing}"], description="What is built. Change: see its fields.")
    storage: SharedVolume = Field(
        NoVolume(),
        description="A ReadWriteMany volume in each namespace for jobs: `nfs`, `storage-class` or `none`. "
        "Change: `none` removes the claims.",
    )
    pools: Annotated[tuple[LabeledPool, ...], Field(strict=False)] = Field(
        (), description="Pools of nodes. Change: in place; jobs on a pool that is removed go on."
    )
    platform: CommonPlatformSettings = Field(
        CommonPlatformSettings(), description="What runs in the cluster beside jobs. Change: see its fields."
    )
    jobs: Annotated[tuple[Job, ...], Field(strict=False)] = Field(
        (),
        description="Jobs that run once; `pulumi up` does not wait for their end. All fields: docs/jobs.md. "
        "Change: a job whose text changes is removed and runs again; one that leaves the file is removed.",
    )

    @property
    def cluster_name(self) -> str:
        return Naming(self.stack).cluster

    @property
    def mount_path(self) -> str | None:
        """Where jobs see the shared volume; None without one."""
        return None if isinstance(self.storage, NoVolume) else self.storage.mount_path
