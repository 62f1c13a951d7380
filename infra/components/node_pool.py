"""Managed node group with one instance type, used for job pools and for the system pool."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import pulumi
import pulumi_aws as aws

from infra.boot.eks_node import ClusterAccess
from infra.components import launch_template
from infra.components.eks_cluster import EksCluster
from infra.naming import COMPONENT, PLACEMENT_TAG, POOL_TAG, Naming
from infra.plan.specs import NodePoolSpec

ROOT_DEVICE: Final = "/dev/xvda"
"""Root device of Amazon Linux 2023 and of the EKS AMIs based on it."""

UNCHANGED: Final = -1
"""Value for a size that a scheduled action leaves unchanged."""


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
    """Resources that a node needs to start and join."""


class NodePool(pulumi.ComponentResource):
    """Creates:
    - a launch template with interfaces, encrypted disks, IMDSv2, reservation, placement, tags and user data
    - a managed node group with node auto repair; Pulumi ignores its desired size if the autoscaler sets it
    - tags on its Auto Scaling group for cost allocation, and for the autoscaler to scale from zero
    - in a Capacity Block: scheduled actions that start the nodes when the block starts, and drain them before it ends
    """

    def __init__(self, name: str, args: NodePoolArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{COMPONENT}:NodePool", name, None, opts)
        self._name, self._args, self._spec = name, args, args.spec
        self._tags = args.naming.tags({POOL_TAG: args.spec.name}, Name=name)
        self._template = self._create_launch_template()
        self.node_group = self._create_node_group()
        self.node_group_name = self.node_group.node_group_name
        self._tag_auto_scaling_group()
        self._create_block_schedule()
        self.register_outputs({"nodeGroupName": self.node_group_name})

    # --- launch template

    def _create_launch_template(self) -> aws.ec2.LaunchTemplate:
        spec = self._spec
        groups = [self._args.cluster.security_group_id, self._args.node_security_group_id]
        is_block = spec.capacity == "CAPACITY_BLOCK"
        return launch_template.create_launch_template(
            f"{self._name}-launch-template",
            description=f"Nodes of pool {spec.name}",
            tags=self._tags,
            root_device=ROOT_DEVICE,
            root_volume_gib=spec.root_volume_gib,
            user_data=self._build_user_data(),
            # EKS adds the cluster security group only to templates without security groups.
            security_groups=groups,
            network_interfaces=[launch_template.build_network_interface(interface, groups) for interface in spec.interfaces],
            image_id=spec.ami_id,
            # EKS requires the instance type in the template for Capacity Blocks, and on the node group for other capacity.
            instance_type=spec.instance_type if is_block else None,
            market="capacity-block" if is_block else "on-demand",
            reservation=spec.reservation,
            placement_group=self._args.placement_group,
            # Changing a tag would create a template version, and EKS would replace every node of the pool. Instances get
            # their tags from the Auto Scaling group.
            opts=pulumi.ResourceOptions(parent=self, ignore_changes=["tagSpecifications"]),
        )

    def _build_user_data(self) -> pulumi.Input[str]:
        if self._spec.ami_id is None:
            return self._spec.user_data(None)
        cluster = self._args.cluster
        access = pulumi.Output.all(cluster.name, cluster.endpoint, cluster.certificate_authority, cluster.service_cidr)
        return access.apply(lambda values: self._spec.user_data(ClusterAccess(*values)))

    # --- node group

    def _create_node_group(self) -> aws.eks.NodeGroup:
        spec, args = self._spec, self._args
        custom_ami = spec.ami_id is not None
        return aws.eks.NodeGroup(
            self._name,
            cluster_name=args.cluster.name,
            # The version is an output of the control plane, so nodes are upgraded after the control plane. The
            # version is not set for a custom AMI, because EKS does not know the AMI's version.
            version=None if custom_ami else args.cluster.version,
            ami_type=None if custom_ami else spec.ami_type,
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
            node_repair_config=_build_repair_config(spec),
            tags={**self._tags, **({PLACEMENT_TAG: spec.placement} if spec.placement else {}), **spec.autoscaler_tags},
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=list(args.after),
                ignore_changes=["scalingConfig.desiredSize"] if spec.sizes.keeps_desired else None,
                # Replace a group that EKS failed to create; otherwise, the next `pulumi up` would only clear the error in
                # Pulumi's state. If this were always set, a failed resize would replace a running group.
                replace_on_changes=["#initerror"] if spec.failed else None,
                # EKS cannot switch an existing group between templates with and without an AMI.
                replacement_trigger="own AMI" if custom_ami else "AMI of EKS",
                # Creating the new group first would need the reserved instances twice.
                delete_before_replace=spec.reservation is not None,
            ),
        )

    def _tag_auto_scaling_group(self) -> None:
        """Tag the Auto Scaling group, because EKS does not copy the node group's tags to it. If the group and the
        launch template both have a tag with the same key, instances get the group's value:
        https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-tagging.html"""
        for key, value in {**self._tags, **self._spec.autoscaler_tags}.items():
            aws.autoscaling.Tag(
                f"{self._name}-tag-{key}",
                autoscaling_group_name=self._auto_scaling_group_name,
                tag={"key": key, "value": value, "propagate_at_launch": key in self._tags},
                opts=pulumi.ResourceOptions(parent=self),
            )

    def _create_block_schedule(self) -> None:
        """Create the scheduled actions that resize a pool in a Capacity Block.

        EKS drains the nodes that Auto Scaling removes.
        """
        block = self._spec.block
        if block is None:
            return
        if block.start is not None:
            self._create_scheduled_action("block-starts", block.start, block.nodes, block.minimum)
        self._create_scheduled_action("block-ends", block.drain, 0, 0)

    def _create_scheduled_action(self, action: str, moment: str, desired: int, minimum: int) -> None:
        aws.autoscaling.Schedule(
            f"{self._name}-{action}",
            autoscaling_group_name=self._auto_scaling_group_name,
            scheduled_action_name=action,
            start_time=moment,
            desired_capacity=desired,
            min_size=minimum,
            max_size=UNCHANGED,
            opts=pulumi.ResourceOptions(parent=self),
        )

    @property
    def _auto_scaling_group_name(self) -> pulumi.Output[str]:
        return self.node_group.resources[0].autoscaling_groups[0].name.apply(lambda name: name or "")


def _build_repair_config(spec: NodePoolSpec) -> aws.eks.NodeGroupNodeRepairConfigArgsDict:
    """Repair one node at a time, because a repair interrupts the job on the node. In groups of more than five
    nodes, EKS stops repairing while more than a fifth of the nodes are unhealthy:
    https://docs.aws.amazon.com/eks/latest/userguide/node-repair.html"""
    if not spec.repair:
        return {"enabled": False}
    config: aws.eks.NodeGroupNodeRepairConfigArgsDict = {"enabled": True, "max_parallel_nodes_repaired_count": 1}
    if spec.repair_overrides:
        config["node_repair_config_overrides"] = [cast(Any, override) for override in spec.repair_overrides]
    return config


_EFFECTS: Final[Mapping[str, str]] = {
    "NoSchedule": "NO_SCHEDULE",
    "NoExecute": "NO_EXECUTE",
    "PreferNoSchedule": "PREFER_NO_SCHEDULE",
}
"""Taint effects: Kubernetes name -> EKS name."""
