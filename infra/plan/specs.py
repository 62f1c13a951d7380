"""What components build: plain values, decided before the first resource is registered."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from infra.naming import Taint
from infra.plan.efa_interfaces import Interface


@dataclass(frozen=True)
class ReservationTarget:
    """Capacity that was reserved: one reservation, or a resource group of them."""

    id: str | None = None
    resource_group_arn: str | None = None


CapacityType = Literal["ON_DEMAND", "SPOT", "CAPACITY_BLOCK"]


@dataclass(frozen=True)
class Sizes:
    minimum: int
    desired: int
    maximum: int
    autoscaler_owns_desired: bool
    """Then `desired` counts at creation only."""


@dataclass(frozen=True)
class NodePoolSpec:
    """What a pool is. Plain values, all decided before the first resource."""

    name: str
    instance_type: str
    ami_type: str
    sizes: Sizes
    root_volume_gib: int
    capacity: CapacityType = "ON_DEMAND"
    reservation: ReservationTarget | None = None
    ami_id: str | None = None
    # hardware
    interfaces: Sequence[Interface] = ()
    """EFA layout; empty without EFA."""
    raid0: bool = False
    pinned_memory: bool = False
    huge_pages: int = 0
    # Kubernetes
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Taint] = ()
    autoscaler_tags: Mapping[str, str] = field(default_factory=dict)
    # what the next run must know of this one
    placement: str | None = None
    """What was chosen where the user left the placement group to us."""
    # updates and repair
    surge: bool = False
    """New nodes start before old ones go; False where there may be no spare capacity."""
    failed: bool = False
    """The node group that there is could not be created, and another must be."""

    @property
    def efa_interfaces(self) -> int:
        """EFA devices that pods on one node can ask for."""
        return sum(interface.type == "efa-only" for interface in self.interfaces)


@dataclass(frozen=True)
class MasterSpec:
    """What the master is. Plain values, all decided before the first resource."""

    instance_type: str
    ami_id: str
    root_device: str
    root_volume_gib: int
    ssh_cidrs: Sequence[str] = ()
    capacity_block: bool = False
    reservation: ReservationTarget | None = None
    interfaces: Sequence[Interface] = ()
    """EFA layout; empty without EFA."""


Market = Literal["on-demand", "spot", "capacity-block"]


@dataclass(frozen=True)
class WorkersSpec:
    """What the workers are. Plain values, all decided before the first resource."""

    pool: str
    instance_type: str
    ami_id: str
    root_device: str
    root_volume_gib: int
    minimum: int
    desired: int
    maximum: int
    keep_desired: bool
    """The group is there, and `scripts/cluster scale` owns its size."""
    market: Market = "on-demand"
    reservation: ReservationTarget | None = None
    interfaces: Sequence[Interface] = ()
    """EFA layout; empty without EFA."""
    placement: str | None = None
    """What was chosen where the user left the placement group to us."""
