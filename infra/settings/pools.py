"""`gpumpi:pools`: GPU node pools and where their capacity comes from."""

from typing import Annotated, Literal

from pydantic import Field

from infra.settings.base import Model


class OnDemand(Model):
    """On-demand instances."""

    kind: Literal["on-demand"] = "on-demand"


class Spot(Model):
    """Spare instances that AWS may take back."""

    kind: Literal["spot"]


class TargetedOdcr(Model):
    """An on-demand capacity reservation with targeted matching, or a resource group of them."""

    kind: Literal["targeted-odcr"]
    reservation_id: str | None = Field(
        None, description="cr-..., an on-demand capacity reservation. Change: rolls the pool's nodes."
    )
    resource_group_arn: str | None = Field(
        None, description="ARN of a resource group of reservations. Change: rolls the pool's nodes."
    )


class CapacityBlock(Model):
    """A Capacity Block for ML."""

    kind: Literal["capacity-block"]
    reservation_id: str = Field(
        examples=["cr-0123456789abcdef0"], description="cr-..., the capacity block's reservation. Change: rolls the pool's nodes."
    )


Capacity = Annotated[OnDemand | Spot | TargetedOdcr | CapacityBlock, Field(discriminator="kind")]


class Pool(Model):
    """GPU nodes of one type, in one zone: a managed node group, or the workers of an EC2 cluster."""

    name: str = Field(examples=["train"], description="DNS label, at most 20 characters, unique. Change: replaces the pool.")
    instance_type: str = Field(
        examples=["g5.8xlarge"],
        description="An EC2 type with NVIDIA GPUs; in an EC2 cluster also one without. Change: replaces the pool.",
    )
    min_size: int = Field(0, description="Minimum number of nodes. Change: in place.")
    desired_size: int | None = Field(
        None,
        description="Nodes at creation (`minSize` by default) and, without the autoscaler, always; in an EC2 cluster at "
        "creation only, later `scripts/cluster scale`. Change: in place.",
    )
    max_size: int = Field(examples=[4], description="Maximum number of nodes. Change: in place.")
    capacity: Capacity = Field(
        OnDemand(),
        description="Where instances come from. "
        "Change: to or from spot and capacity blocks replaces the pool; others roll its nodes.",
    )
    placement_group: str = Field(
        "auto",
        description="`auto` (a cluster group if the type has EFA, more than one node may run and nothing is reserved), `none`, "
        "or the name of your own. The choice of `auto` is made when the pool is created. Change: rolls the pool's nodes.",
    )
    efa: Literal["auto"] | bool = Field(
        "auto", description="EFA interfaces: `auto` where the type has them. Change: rolls the pool's nodes."
    )
    zone: str | None = Field(
        None,
        description="The pool's zone; by default one that offers the type, chosen once and then kept. Change: replaces the pool.",
    )
    ami_id: str | None = Field(
        None,
        description="Your AMI instead of EKS's AL2023 NVIDIA one. "
        "Change: another AMI of yours rolls the pool's nodes; the first one, or none again, replaces the pool.",
    )
    root_volume_gib: int = Field(100, description="Size of the encrypted root volume in GiB. Change: rolls the pool's nodes.")
    labels: dict[str, str] = Field(
        {}, description="More Kubernetes labels for the nodes. Change: in place; with `amiId` rolls the pool's nodes."
    )

    @property
    def initial_size(self) -> int:
        return self.min_size if self.desired_size is None else self.desired_size

    @property
    def reservation_id(self) -> str | None:
        """The capacity reservation the pool's instances run in."""
        return self.capacity.reservation_id if isinstance(self.capacity, TargetedOdcr | CapacityBlock) else None

    @property
    def is_reserved(self) -> bool:
        """Reserved capacity: a placement group of ours would reduce what can be launched."""
        return isinstance(self.capacity, TargetedOdcr | CapacityBlock)

    @property
    def own_placement_group(self) -> str | None:
        """The user's placement group."""
        return None if self.placement_group in ("auto", "none") else self.placement_group
