"""`gpumpi:pools`: node pools, with GPUs or without, and where their capacity comes from."""

from typing import Annotated, Literal

from pydantic import Field

from infra.config.models import Model


class OnDemand(Model):
    """On-demand instances."""

    kind: Literal["on-demand"] = "on-demand"


class Spot(Model):
    """Spot instances, which AWS may reclaim."""

    kind: Literal["spot"]


class TargetedOdcr(Model):
    """An On-Demand Capacity Reservation (ODCR) with targeted matching, or a resource group of them."""

    kind: Literal["targeted-odcr"]
    reservation_id: str | None = Field(
        None, description="ID (cr-...) of an On-Demand Capacity Reservation. Change: rolls the pool's nodes."
    )
    resource_group_arn: str | None = Field(
        None, description="ARN of a resource group of capacity reservations. Change: rolls the pool's nodes."
    )


class CapacityBlock(Model):
    """A Capacity Block for ML."""

    kind: Literal["capacity-block"]
    reservation_id: str = Field(
        examples=["cr-0123456789abcdef0"], description="ID (cr-...) of the Capacity Block. Change: rolls the pool's nodes."
    )


Capacity = Annotated[OnDemand | Spot | TargetedOdcr | CapacityBlock, Field(discriminator="kind")]


class Pool(Model):
    """Nodes of one instance type in one zone: a managed node group, or the workers of an EC2 cluster."""

    name: str = Field(
        examples=["train"],
        description="Pool name: a unique DNS label of at most 20 characters. Change: replaces the pool.",
    )
    instance_type: str = Field(
        examples=["g5.8xlarge"],
        description="EC2 instance type with NVIDIA GPUs, or without GPUs. Change: replaces the pool.",
    )
    min_size: int = Field(0, description="Minimum number of nodes. Change: in place.")
    desired_size: int | None = Field(
        None,
        description="Number of nodes at creation (`minSize` by default) and, without the autoscaler, at all times. EC2 clusters "
        "use it only at creation; resize them later with `scripts/cluster scale`. Change: in place.",
    )
    max_size: int = Field(examples=[4], description="Maximum number of nodes. Change: in place.")
    capacity: Capacity = Field(
        OnDemand(),
        description="Purchase option of the instances. "
        "Change: to or from `spot` and `capacity-block`, replaces the pool; otherwise rolls its nodes.",
    )
    placement_group: str = Field(
        "auto",
        description="`auto` (a cluster placement group if the type has EFA, `maxSize` is above 1 and capacity is not reserved), "
        "`none`, or the name of your own group. `auto` is resolved when the pool is created. Change: rolls the pool's nodes.",
    )
    efa: Literal["auto"] | bool = Field(
        "auto", description="Attach EFA interfaces; `auto` does so if the type supports EFA. Change: rolls the pool's nodes."
    )
    zone: str | None = Field(
        None,
        description="Availability Zone; by default one that offers the type, chosen when the pool is created. "
        "Change: replaces the pool.",
    )
    ami_id: str | None = Field(
        None,
        description="Your own AMI instead of EKS's AL2023 AMI, which includes the NVIDIA driver for types with GPUs. "
        "Change: from one AMI to another, rolls the pool's nodes; adding or removing `amiId` replaces the pool.",
    )
    root_volume_gib: int = Field(100, description="Size of the encrypted root volume in GiB. Change: rolls the pool's nodes.")
    labels: dict[str, str] = Field(
        {}, description="Additional Kubernetes labels for the nodes. Change: in place; with `amiId`, rolls the pool's nodes."
    )

    @property
    def initial_size(self) -> int:
        return self.min_size if self.desired_size is None else self.desired_size

    @property
    def reservation_id(self) -> str | None:
        """ID of the capacity reservation in which the pool's instances run."""
        return self.capacity.reservation_id if isinstance(self.capacity, TargetedOdcr | CapacityBlock) else None

    @property
    def is_reserved(self) -> bool:
        """True for reserved capacity: a placement group would reduce the number of instances that can be launched."""
        return isinstance(self.capacity, TargetedOdcr | CapacityBlock)

    @property
    def own_placement_group(self) -> str | None:
        """Name of the user's own placement group; None for `auto` and `none`."""
        return None if self.placement_group in ("auto", "none") else self.placement_group
