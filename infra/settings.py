"""What a stack may say: the `gpumpi:` part of `stacks/Pulumi.<stack>.yaml` as frozen models.

Every field carries its meaning and, after "Change:", what a new value does to a live cluster; the README's configuration
table is checked against these texts. Nothing here asks AWS: rules that need facts live in `infra.validation`.
"""

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field

from infra.in_cluster import InCluster
from infra.jobs.model import Job
from infra.model import Model, Names
from infra.naming import Naming
from infra.problems import SettingsError
from infra.shape import FURTHER_KINDS, understand
from infra.targets import EXISTING, Ec2Target, EksTarget, Target

SERVICE_CIDR = "172.20.0.0/16"
"""Addresses of Kubernetes services, the same in every cluster; a VPC may not overlap it."""


# --- network -----------------------------------------------------------------------------------------------------------


class Network(Model):
    """A new VPC, or (with `vpcId`) one that exists and is only read."""

    cidr: str | None = Field(
        None,
        description="Addresses of the new VPC, /16 to /20; 10.0.0.0/16 by default. Change: not supported; make another stack.",
    )
    zones: int | Names | None = Field(
        None,
        description="How many zones (2 to 4; 3 by default, fewer where the region has fewer), or their names. "
        "Change: another zone moves nothing, control plane and system nodes stay where they are; their zones cannot be removed.",
    )
    nat_gateways: Literal["none", "one", "perZone"] | None = Field(
        None,
        description="Way out for private subnets; `one` by default. `none` needs `interfaceEndpoints: true`. "
        "Change: in place; running connections break.",
    )
    interface_endpoints: bool | None = Field(
        None, description="Private endpoints for every AWS service that nodes call, for closed networks. Change: in place."
    )
    vpc_id: str | None = Field(
        None, description="An existing VPC to use; nothing of it is changed. Change: not supported; make another stack."
    )
    subnet_ids: Names = Field(
        (),
        description="Private subnets of `vpcId`, in at least two zones. "
        "Change: order and more of them move nothing; removing one replaces what is in it, but not the last in a zone of the "
        "control plane.",
    )

    @property
    def is_existing(self) -> bool:
        return self.vpc_id is not None

    @property
    def new_cidr(self) -> str:
        """Addresses of the VPC that this stack makes."""
        return self.cidr or "10.0.0.0/16"

    @property
    def zone_names(self) -> tuple[str, ...]:
        """The zones by name; empty where only their number is asked for."""
        return self.zones if isinstance(self.zones, tuple) else ()

    @property
    def zone_count(self) -> int | None:
        """The number of zones asked for; None where it follows from the region."""
        return self.zones if isinstance(self.zones, int) else (len(self.zones) if self.zones else None)

    @property
    def nat(self) -> Literal["none", "one", "perZone"]:
        return self.nat_gateways or ("none" if self.is_existing else "one")

    @property
    def has_interface_endpoints(self) -> bool:
        return bool(self.interface_endpoints)


# --- storage -----------------------------------------------------------------------------------------------------------


class Efs(Model):
    """A new EFS file system, or (with `fileSystemId`) one that exists."""

    mount_path: str = Field("/shared", description="Where jobs and nodes see it. Change: in place, for jobs started later.")
    file_system_id: str | None = Field(
        None,
        description="An existing file system, left as it is. "
        "Change: replaces the access point; a file system of the stack's own is deleted with its data.",
    )
    backup: bool | None = Field(None, description="Daily AWS Backup of the new file system; false by default. Change: in place.")
    infrequent_access_after_days: Literal[1, 7, 14, 30, 60, 90, 180, 270, 365] | None = Field(
        None, description="Move files not read for so many days to cheaper storage; never by default. Change: in place."
    )
    protect: bool = Field(False, description="Pulumi refuses to delete the file system while true. Change: in place.")

    @property
    def is_existing(self) -> bool:
        return self.file_system_id is not None


class Storage(Model):
    """What nodes and jobs share."""

    efs: Efs | Literal["none"] = Field(
        Efs(), description="The shared file system, or `none`. Change: to `none` deletes it and its data."
    )

    @property
    def existing_file_system_id(self) -> str | None:
        return None if self.efs == "none" else self.efs.file_system_id


# --- pools -------------------------------------------------------------------------------------------------------------


class OnDemand(Model):
    """Instances as they come."""

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
    """GPU nodes of one type, in one zone: a managed node group, or the workers of a plain EC2 cluster."""

    name: str = Field(examples=["train"], description="DNS label, at most 20 characters, unique. Change: replaces the pool.")
    instance_type: str = Field(
        examples=["g5.8xlarge"],
        description="An EC2 type with NVIDIA GPUs; in a plain EC2 cluster one without too. Change: replaces the pool.",
    )
    min_size: int = Field(0, description="Least nodes. Change: in place.")
    desired_size: int | None = Field(
        None,
        description="Nodes at creation (`minSize` by default) and, without the autoscaler, always; of a plain EC2 cluster at "
        "creation only, later `scripts/cluster scale`. Change: in place.",
    )
    max_size: int = Field(examples=[4], description="Most nodes. Change: in place.")
    capacity: Capacity = Field(
        OnDemand(),
        description="Where instances come from. "
        "Change: to or from spot and capacity blocks replaces the pool; others roll its nodes.",
    )
    placement_group: str = Field(
        "auto",
        description="`auto` (a cluster group if the type has EFA, more than one node may run and nothing is reserved), `none`, "
        "or the name of your own. Change: rolls the pool's nodes.",
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
        """Whether its capacity is set aside already: then a placement group of ours would only shrink what one gets."""
        return isinstance(self.capacity, TargetedOdcr | CapacityBlock)

    @property
    def own_placement_group(self) -> str | None:
        """The user's placement group."""
        return None if self.placement_group in ("auto", "none") else self.placement_group


# --- platform ----------------------------------------------------------------------------------------------------------


class Platform(InCluster):
    """What runs in the cluster beside the user's jobs."""

    install: bool | None = Field(
        None,
        description="Whether `pulumi up` installs the platform; by default exactly when the Kubernetes API has a public "
        "endpoint. `true` beside a private one: this machine is inside the network. "
        "Change: false removes it and all jobs, for which the API must be reached one last time.",
    )
    efa_plugin: bool = Field(
        True, description="AWS's EFA device plugin, where a pool has EFA. Change: in place; without it no pod gets EFA."
    )
    autoscaler: bool = Field(
        True,
        description="The cluster autoscaler owns the pools' sizes between `minSize` and `maxSize`; `desiredSize` counts at "
        "creation only. Change: in place; without it pools go to their `desiredSize`.",
    )
    idle_minutes: int = Field(
        10, description="How long the autoscaler keeps a node on which nothing runs, in minutes. Change: in place."
    )
    transport: Literal["auto", "tcp"] = Field(
        "auto",
        description="What carries MPI's messages between nodes: `auto` is EFA where a pool has it, or an error; `tcp` never uses "
        "EFA. Change: jobs submitted later; the stack's jobs run once more.",
    )


# --- the stack ---------------------------------------------------------------------------------------------------------


class Settings(Model):
    """All that one stack says under `gpumpi:`, plus `aws:region`."""

    region: str = Field(exclude=True, description="`aws:region`. Change: not supported; make another stack.")
    stack: str = Field(exclude=True, description="The stack's name, which is the cluster's.")
    target: Target = Field(
        examples=["{kind: eks}"],
        description="What is built. Change: see its fields.",
        json_schema_extra={FURTHER_KINDS: [EXISTING]},
    )
    network: Network = Field(Network(), description="The VPC. Change: see its fields.")
    storage: Storage = Field(Storage(), description="Shared storage. Change: see its fields.")
    pools: Annotated[tuple[Pool, ...], Field(strict=False)] = Field(
        (), description="GPU node pools. Change: order and more of them move nothing; removing one ends its nodes."
    )
    platform: Platform = Field(Platform(), description="What runs in the cluster beside jobs. Change: see its fields.")
    jobs: Annotated[tuple[Job, ...], Field(strict=False)] = Field(
        (),
        description="Jobs that run once; `pulumi up` does not wait for their end. What one may say: docs/jobs.md. "
        "Change: a job whose text changes is removed and runs again; one that leaves the file is removed.",
    )
    cost_center: str | None = Field(
        None,
        description="Value of the tag `cost-center` on everything; the stack's name by default. "
        "Change: in place; nodes that run keep theirs, and volumes and interfaces those of their pool's creation.",
    )
    tags: dict[str, str] = Field({}, description="More tags for everything. Change: as with `costCenter`.")

    @classmethod
    def load(cls, values: Mapping[str, object], *, stack: str, region: str) -> Self:
        """Understand what a stack says under `gpumpi:` (keys without the prefix); every problem at once, or none.

        Raises SettingsError.
        """
        settings, problems, doubtful = understand(cls, values, stack=stack, region=region)
        if problems or settings is None:
            raise SettingsError(problems, settings, doubtful)
        return settings

    @property
    def cluster_name(self) -> str:
        return Naming(self.stack).cluster

    @property
    def is_eks(self) -> bool:
        return isinstance(self.target, EksTarget)

    @property
    def eks(self) -> EksTarget:
        """The target of a stack that is known to be an EKS cluster."""
        assert isinstance(self.target, EksTarget), f"{self.stack} is no EKS cluster"
        return self.target

    @property
    def ec2(self) -> Ec2Target:
        """The target of a stack that is known to be a plain EC2 cluster."""
        assert isinstance(self.target, Ec2Target), f"{self.stack} is no plain EC2 cluster"
        return self.target

    @property
    def installs_platform(self) -> bool:
        if not self.is_eks:
            return False
        asked = self.platform.install
        return self.eks.endpoint_access.is_public if asked is None else asked
