"""A managed node group of one instance type: GPU pools and the CPU pool alike."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import pulumi
import pulumi_aws as aws

from infra import launching
from infra.boot import eks_node
from infra.boot.eks_node import ClusterAccess
from infra.components.eks_cluster import EksCluster
from infra.instances import Interface
from infra.launching import Reservation
from infra.naming import COMPONENT, PLACEMENT_TAG, POOL_TAG, Naming, Taint

ROOT_DEVICE: Final = "/dev/xvda"
"""Root device of Amazon Linux 2023 and of EKS's AMIs built on it."""

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
    reservation: Reservation | None = None
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
class NodePoolArgs:
    naming: Naming
    spec: NodePoolSpec
    cluster: EksCluster
    node_role_arn: pulumi.Input[str]
    node_security_group_id: pulumi.Input[str]
    subnet_ids: Sequence[pulumi.Input[str]]
    placement_group: pulumi.Input[str] | None = None
    after: Sequence[pulumi.Resource] = ()
    """What a node needs to start and join."""


class NodePool(pulumi.ComponentResource):
    """Creates:
    - a launch template: interfaces, encrypted disks, metadata of version 2 only, reservation and placement, tags, boot text
    - a managed node group with repair, whose desired size is left alone where the autoscaler owns it
    - tags on its auto scaling group: cost, and what the autoscaler must know to start from zero
    """

    def __init__(self, name: str, args: NodePoolArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{COMPONENT}:NodePool", name, None, opts)
        self._name, self._args, self._spec = name, args, args.spec
        self._tags = args.naming.tags({POOL_TAG: args.spec.name}, Name=name)
        self._template = self._create_launch_template()
        self._group = self._create_node_group()
        self._tag_auto_scaling_group()
        self.register_outputs({"nodeGroupName": self.node_group_name})

    # --- launch template

    def _create_launch_template(self) -> aws.ec2.LaunchTemplate:
        spec = self._spec
        groups = [self._args.cluster.security_group_id, self._args.node_security_group_id]
        return aws.ec2.LaunchTemplate(
            f"{self._name}-launch-template",
            description=f"Nodes of pool {spec.name}",
            update_default_version=True,
            image_id=spec.ami_id,
            # EKS wants the type here for capacity blocks, and on the node group otherwise
            instance_type=spec.instance_type if spec.capacity == "CAPACITY_BLOCK" else None,
            instance_market_options={"market_type": "capacity-block"} if spec.capacity == "CAPACITY_BLOCK" else None,
            capacity_reservation_specification=launching.reservation(spec.reservation),
            placement={"group_name": self._args.placement_group} if self._args.placement_group is not None else None,
            # Security groups are on the instance or on every interface, never both; EKS adds its own group only where none is
            # given: https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html
            vpc_security_group_ids=None if spec.interfaces else groups,
            network_interfaces=[launching.interface(one, groups) for one in spec.interfaces] or None,
            block_device_mappings=[launching.root_disk(ROOT_DEVICE, spec.root_volume_gib)],
            metadata_options=launching.METADATA,
            monitoring={"enabled": True},
            tag_specifications=[
                {"resource_type": kind, "tags": self._tags} for kind in ("instance", "volume", "network-interface")
            ],
            user_data=self._user_data(),
            tags=self._tags,
            # Another tag would be another version of the template, for which EKS restarts every node of the pool. Instances
            # get it from the auto scaling group when they are launched.
            opts=pulumi.ResourceOptions(parent=self, ignore_changes=["tagSpecifications"]),
        )

    def _user_data(self) -> pulumi.Input[str]:
        if self._spec.ami_id is None:
            return self._boot_text(None)
        cluster = self._args.cluster
        access = pulumi.Output.all(cluster.name, cluster.endpoint, cluster.certificate_authority, cluster.service_cidr)
        return access.apply(lambda values: self._boot_text(ClusterAccess(*values)))

    def _boot_text(self, cluster: ClusterAccess | None) -> str:
        spec = self._spec
        config = eks_node.node_config(
            raid0=spec.raid0, pinned_memory=spec.pinned_memory, cluster=cluster, labels=spec.labels, taints=spec.taints
        )
        return eks_node.encoded(eks_node.user_data(config, huge_pages=spec.huge_pages))

    # --- node group

    def _create_node_group(self) -> aws.eks.NodeGroup:
        spec, args = self._spec, self._args
        own_ami = spec.ami_id is not None
        return aws.eks.NodeGroup(
            self._name,
            cluster_name=args.cluster.name,
            # From the control plane, so that nodes upgrade after it; EKS does not know the version of one's own AMI
            version=None if own_ami else args.cluster.version,
            ami_type=None if own_ami else spec.ami_type,
            instance_types=None if spec.capacity == "CAPACITY_BLOCK" else [spec.instance_type],
            capacity_type=spec.capacity,
            node_role_arn=args.node_role_arn,
            subnet_ids=list(args.subnet_ids),
            launch_template={"id": self._template.id, "version": self._template.latest_version.apply(str)},
            scaling_config={
                "min_size": spec.sizes.minimum,
                "desired_size": spec.sizes.desired,
                "max_size": spec.sizes.maximum,
            },
            labels=spec.labels,
            taints=[{"key": t.key, "value": t.value, "effect": _EFFECTS[t.effect]} for t in spec.taints] or None,
            update_config={"max_unavailable": 1, "update_strategy": "DEFAULT" if spec.surge else "MINIMAL"},
            # one at a time: a repair takes a node from under a job
            node_repair_config={"enabled": True, "max_parallel_nodes_repaired_count": 1},
            tags={**self._tags, **({PLACEMENT_TAG: spec.placement} if spec.placement else {}), **spec.autoscaler_tags},
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=list(args.after),
                ignore_changes=["scalingConfig.desiredSize"] if spec.sizes.autoscaler_owns_desired else None,
                # Without it the next run would only forget the failure. With it always, a running group would be replaced
                # after a failed change of its size.
                replace_on_changes=["#initerror"] if spec.failed else None,
                # EKS takes a template with an AMI for one without, and back, for no group that exists
                replacement_trigger="own AMI" if own_ami else "AMI of EKS",
                # two groups at once would want the reserved instances twice
                delete_before_replace=spec.reservation is not None,
            ),
        )

    def _tag_auto_scaling_group(self) -> None:
        """EKS does not hand a node group's tags to its auto scaling group. Of the group's and the template's tags of one name,
        an instance gets the group's: https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-tagging.html"""
        group = self._group.resources[0].autoscaling_groups[0].name
        for key, value in {**self._tags, **self._spec.autoscaler_tags}.items():
            aws.autoscaling.Tag(
                f"{self._name}-tag-{key}",
                autoscaling_group_name=group.apply(lambda name: name or ""),
                tag={"key": key, "value": value, "propagate_at_launch": key in self._tags},
                opts=pulumi.ResourceOptions(parent=self),
            )

    @property
    def node_group(self) -> pulumi.Resource:
        return self._group

    @property
    def node_group_name(self) -> pulumi.Output[str]:
        return self._group.node_group_name


_EFFECTS: Final[Mapping[str, str]] = {
    "NoSchedule": "NO_SCHEDULE",
    "NoExecute": "NO_EXECUTE",
    "PreferNoSchedule": "PREFER_NO_SCHEDULE",
}
"""Kubernetes' words for taints -> EKS's."""
