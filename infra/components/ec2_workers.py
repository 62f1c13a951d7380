"""Workers of an EC2 cluster."""

from collections.abc import Mapping

import pulumi
import pulumi_aws as aws

from infra.boot.ec2_node import HOOK
from infra.components import launch_template
from infra.components.launch_template import Ec2NodeArgs
from infra.naming import COMPONENT, PLACEMENT_TAG, POOL_TAG, ROLE_TAG, WORKER
from infra.plan.specs import WorkersSpec


class Ec2Workers(pulumi.ComponentResource):
    """Creates:
    - a launch template with interfaces, an encrypted disk, IMDSv2, reservation, placement and user data
    - an Auto Scaling group, which puts a worker into service once it has joined, and replaces it if it cannot join
    """

    def __init__(self, name: str, spec: WorkersSpec, args: Ec2NodeArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(f"{COMPONENT}:Ec2Workers", name, None, opts)
        self._name, self._spec, self._args = name, spec, args
        self._tags = args.naming.tags({POOL_TAG: spec.pool, ROLE_TAG: WORKER}, Name=name)
        self.group_name = self._create_group(self._create_launch_template()).name
        self.register_outputs({"autoScalingGroup": self.group_name})

    def _create_launch_template(self) -> aws.ec2.LaunchTemplate:
        spec, args = self._spec, self._args
        return launch_template.create_launch_template(
            f"{self._name}-launch-template",
            description=f"Workers of {args.naming.cluster}",
            tags=self._tags,
            root_device=spec.root_device,
            root_volume_gib=spec.root_volume_gib,
            user_data=args.user_data,
            security_groups=[args.security_group_id],
            network_interfaces=[
                launch_template.build_network_interface(interface, [args.security_group_id]) for interface in spec.interfaces
            ],
            image_id=spec.ami_id,
            instance_type=spec.instance_type,
            market=spec.market,
            reservation=spec.reservation,
            placement_group=args.placement_group,
            profile_arn=args.role.profile_arn,
            opts=pulumi.ResourceOptions(parent=self),
        )

    def _create_group(self, template: aws.ec2.LaunchTemplate) -> aws.autoscaling.Group:
        spec, args = self._spec, self._args
        tags: Mapping[str, str] = {**self._tags, **({PLACEMENT_TAG: spec.placement} if spec.placement else {})}
        return aws.autoscaling.Group(
            self._name,
            name=args.naming.workers,
            min_size=spec.sizes.minimum,
            desired_capacity=spec.sizes.desired,
            max_size=spec.sizes.maximum,
            vpc_zone_identifiers=[args.subnet_id],
            # There is no instance refresh, because it would interrupt jobs on running instances.
            launch_template={"id": template.id, "version": template.latest_version.apply(str)},
            # The provider puts the hooks before it sets the group's size, so no worker starts without the hook.
            initial_lifecycle_hooks=[
                {
                    "name": HOOK,
                    "lifecycle_transition": "autoscaling:EC2_INSTANCE_LAUNCHING",
                    "heartbeat_timeout": spec.join_seconds,
                    "default_result": "ABANDON",
                }
            ],
            health_check_type="EC2",
            wait_for_capacity_timeout="0",  # `scripts/cluster wait` waits and reports why a node fails
            force_delete=True,  # otherwise, a joining worker blocks the deletion until its time limit
            tags=[{"key": key, "value": value, "propagate_at_launch": key != PLACEMENT_TAG} for key, value in tags.items()],
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=args.needs,
                # The provider would replace the group, with all workers, to change a hook. The time limit follows the hook
                # that exists (facts/ec2_cluster.py), so it differs from the recorded one if a user changed the hook.
                ignore_changes=["initialLifecycleHooks", *(["desiredCapacity"] if spec.sizes.keeps_desired else [])],
            ),
        )
