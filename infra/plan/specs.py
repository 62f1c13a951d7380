"""Specs for components: plain values, all decided before the first resource is registered."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Literal

from infra.boot import eks_node
from infra.boot.eks_node import ClusterAccess
from infra.health.faults import RepairOverride
from infra.naming import StorageKind, Taint
from infra.plan.efa_interfaces import Interface, count_efa_devices
from infra.settings.users import JobAccess


@dataclass(frozen=True)
class ReservationTarget:
    """Reserved capacity: one reservation, or a resource group of reservations."""

    id: str | None = None
    resource_group_arn: str | None = None


DRAIN_BEFORE_END: Final = timedelta(minutes=45)
"""EKS starts to remove the nodes of a Capacity Block 40 minutes before the block ends, and EC2 starts to terminate the
instances 30 minutes before the end: https://docs.aws.amazon.com/eks/latest/userguide/capacity-blocks-mng.html. Draining
starts earlier, so that jobs can save a checkpoint.
"""


@dataclass(frozen=True)
class BlockSchedule:
    """Times at which a pool in a Capacity Block grows and shrinks, in the format that Auto Scaling uses."""

    start: str | None
    """None if the block has started."""
    drain: str
    nodes: int
    """Size of the pool from the start of the block."""
    minimum: int
    """Minimum size of the pool, which draining sets to 0."""


CapacityType = Literal["ON_DEMAND", "SPOT", "CAPACITY_BLOCK"]


@dataclass(frozen=True)
class Sizes:
    """Sizes of a pool in this Pulumi operation."""

    minimum: int
    desired: int
    maximum: int
    keeps_desired: bool = False
    """Whether the pool keeps the size that the autoscaler or `scripts/cluster scale` has set. `desired` is then only used
    at creation."""


@dataclass(frozen=True)
class NodePoolSpec:
    """Spec of a node pool."""

    name: str
    instance_type: str
    ami_type: str
    sizes: Sizes
    root_volume_gib: int
    capacity: CapacityType = "ON_DEMAND"
    reservation: ReservationTarget | None = None
    block: BlockSchedule | None = None
    ami_id: str | None = None
    # hardware
    interfaces: Sequence[Interface] = ()
    """Network interfaces for EFA; empty without EFA."""
    raid0: bool = False
    pinned_memory: bool = False
    huge_pages: int = 0
    max_pods: int | None = None
    """Pod limit that replaces EKS's limit; None if EKS's limit is correct."""
    # Kubernetes
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Taint] = ()
    autoscaler_tags: Mapping[str, str] = field(default_factory=dict)
    # recorded, so that the next `pulumi up` makes the same decision
    placement: str | None = None
    """Value to which `placementGroup: auto` resolved; None for other settings."""
    # updates and repair
    surge: bool = False
    """Whether an update starts new nodes before it deletes old ones. False for pools that may have no spare
    capacity."""
    repair: bool = True
    """Whether EKS repairs the nodes."""
    repair_overrides: Sequence[RepairOverride] = ()
    failed: bool = False
    """Whether the creation of the existing node group failed, so that it must be replaced."""

    def user_data(self, cluster: ClusterAccess | None) -> str:
        """Return the nodes' user data in base64. Only custom AMIs need `cluster`."""
        config = eks_node.build_node_config(
            raid0=self.raid0,
            pinned_memory=self.pinned_memory,
            cluster=cluster,
            labels=self.labels,
            taints=self.taints,
            max_pods=self.max_pods,
        )
        return eks_node.encode_base64(eks_node.render_user_data(config, huge_pages=self.huge_pages))

    @property
    def efa_device_count(self) -> int:
        """Number of EFA devices that pods on one node can request."""
        return count_efa_devices(self.interfaces)


Market = Literal["on-demand", "spot", "capacity-block"]


@dataclass(frozen=True, kw_only=True)
class InstanceSpec:
    """What the head node and the workers of an EC2 cluster have in common."""

    instance_type: str
    ami_id: str
    root_device: str
    root_volume_gib: int
    slots: int
    """Ranks that the node runs."""
    market: Market = "on-demand"
    reservation: ReservationTarget | None = None
    interfaces: Sequence[Interface] = ()
    """Network interfaces for EFA; empty without EFA."""


@dataclass(frozen=True, kw_only=True)
class HeadNodeSpec(InstanceSpec):
    """Spec of an EC2 cluster's head node. The head node has no slots if it only launches jobs."""

    idle_slots: int
    """Number of slots while the cluster has no workers."""
    ssh_cidrs: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class WorkersSpec(InstanceSpec):
    """Spec of an EC2 cluster's workers."""

    pool: str
    gpus: int
    sizes: Sizes
    join_seconds: int
    """Time limit from launch to join, after which the Auto Scaling group replaces a worker."""
    placement: str | None = None
    """Value to which `placementGroup: auto` resolved; None for other settings."""


@dataclass(frozen=True, kw_only=True)
class Ec2ClusterSpec:
    """Spec of an EC2 cluster."""

    head_node: HeadNodeSpec
    workers: WorkersSpec
    zone: str
    user: str
    public_keys: Sequence[str]
    """Public keys of SSH users."""
    makes_placement_group: bool
    own_placement_group: str | None
    """Name of the user's placement group."""


@dataclass(frozen=True)
class SharedDataSpec:
    """A directory that the jobs of all namespaces mount, read-only except in the namespaces `writers`."""

    path: str
    mount_path: str
    writers: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FileSystemSpec:
    """A shared file system of a stack."""

    kind: StorageKind
    mount_path: str
    owned: tuple[str, ...] = ()
    """Directories that must belong to the login user of an EC2 cluster, because only root can write to them at first."""
    namespaces: tuple[str, ...] = ()
    """Job namespaces. Each one has a directory of its own. Empty for EC2 clusters."""
    shared_data: SharedDataSpec | None = None


@dataclass(frozen=True, kw_only=True)
class ExistingSpec(FileSystemSpec):
    """A file system that the stack does not create. The stack changes only its security groups in `admitting_groups`."""

    id: str
    admitting_groups: tuple[str, ...]
    """Security groups to which the stack adds rules that admit its nodes."""


@dataclass(frozen=True, kw_only=True)
class NewEfsSpec(FileSystemSpec):
    """A new EFS file system, with a mount target in each zone."""

    infrequent_access_after_days: int | None
    backup: bool
    protect: bool


@dataclass(frozen=True, kw_only=True)
class ExistingLustreSpec(ExistingSpec):
    """An existing FSx for Lustre file system."""

    dns_name: str
    mount_name: str


@dataclass(frozen=True)
class LinkedBucket:
    """S3 data linked to a directory of a Lustre file system."""

    path: str
    directory: str
    imports: tuple[str, ...]
    exports: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class NewLustreSpec(FileSystemSpec):
    """A new FSx for Lustre file system."""

    zone: str
    subnet_id: str | None
    """Subnet that the file system must keep; None to use the zone's first private subnet."""
    deployment: str
    size_gib: int
    throughput_per_tib: int | None
    """None for SCRATCH_2, whose throughput is fixed."""
    compression: bool
    creates_key: bool
    """Whether the stack creates the key that encrypts the file system."""
    key_arn: str | None
    """ARN of the user's key. If there is no key, AWS encrypts the file system with an AWS managed key."""
    linked: LinkedBucket | None
    protect: bool


@dataclass(frozen=True, order=True)
class Subject:
    """A user or group, as Kubernetes authenticates it."""

    kind: Literal["Group", "User"]
    name: str


@dataclass(frozen=True)
class JobUsersSpec:
    """Subjects of the role bindings of job users."""

    everyone: tuple[Subject, ...] = ()
    """All job users of the cluster."""
    by_namespace: Mapping[tuple[str, JobAccess], tuple[Subject, ...]] = field(default_factory=dict)
    """Maps a namespace and an access to the job users that have this access to the namespace."""


NO_USERS: Final = JobUsersSpec()
