"""Specs for components: plain values, all decided before the first resource is registered."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, Literal

from infra.health.faults import RepairOverride
from infra.naming import Taint
from infra.plan.efa_interfaces import Interface, efa_count


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
    """Size from the start of the block."""
    minimum: int
    """Minimum size of the pool, which draining sets to 0."""


CapacityType = Literal["ON_DEMAND", "SPOT", "CAPACITY_BLOCK"]


@dataclass(frozen=True)
class Sizes:
    minimum: int
    desired: int
    maximum: int
    autoscaler_owns_desired: bool
    """If true, `desired` is only used at creation."""


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
    # recorded for the next `pulumi up`
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

    @property
    def efa_interfaces(self) -> int:
        """Number of EFA devices that pods on one node can request."""
        return efa_count(self.interfaces)


@dataclass(frozen=True)
class HeadNodeSpec:
    """Spec of an EC2 cluster's head node."""

    instance_type: str
    ami_id: str
    root_device: str
    root_volume_gib: int
    ssh_cidrs: Sequence[str] = ()
    capacity_block: bool = False
    reservation: ReservationTarget | None = None
    interfaces: Sequence[Interface] = ()
    """Network interfaces for EFA; empty without EFA."""


Market = Literal["on-demand", "spot", "capacity-block"]


@dataclass(frozen=True)
class WorkersSpec:
    """Spec of an EC2 cluster's workers."""

    pool: str
    instance_type: str
    ami_id: str
    root_device: str
    root_volume_gib: int
    minimum: int
    desired: int
    maximum: int
    keep_desired: bool
    """Whether the group exists already, so that `scripts/cluster scale` owns its size."""
    join_seconds: int
    """Time limit from launch to join, after which the group replaces a worker."""
    market: Market = "on-demand"
    reservation: ReservationTarget | None = None
    interfaces: Sequence[Interface] = ()
    """Network interfaces for EFA; empty without EFA."""
    placement: str | None = None
    """Value to which `placementGroup: auto` resolved; None for other settings."""
