"""Head node of an EC2 cluster: users log in and start jobs here."""

from collections.abc import Sequence
from typing import Final

import pulumi
import pulumi_aws as aws

from infra.components import launch_template
from infra.components.children import build_child_args
from infra.components.launch_template import Ec2NodeArgs
from infra.components.node_security_group import create_ingress_rule
from infra.naming import COMPONENT, HEAD_NODE, ROLE_TAG
from infra.plan.efa_interfaces import Interface
from infra.plan.specs import HeadNodeSpec

TYPE: Final = f"{COMPONENT}:Ec2Master"
"""Type token recorded in users' state. Changing it would replace the head node."""

SSH: Final = 22
PRIMARY: Final = Interface(0, 0, "interface")
"""The only interface of a head node without EFA."""


class Ec2HeadNode(pulumi.ComponentResource):
    """Creates:
    - a launch template with interfaces, an encrypted disk and IMDSv2
    - the head node; changing the template or the user data, which only runs at first boot, replaces it
    - if SSH is open: a security group for the given addresses only, and an Elastic IP address
    """

    def __init__(
        self,
        name: str,
        spec: HeadNodeSpec,
        args: Ec2NodeArgs,
        vpc_id: pulumi.Input[str],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__(TYPE, name, None, opts)
        self._name, self._spec, self._args = name, spec, args
        self._child = pulumi.ResourceOptions(parent=self)
        self._tags = args.naming.tags({ROLE_TAG: HEAD_NODE}, Name=name)
        ssh_groups = [self._create_ssh_security_group(vpc_id)] if spec.ssh_cidrs else []
        template = self._create_launch_template(ssh_groups)
        self._instance = aws.ec2.Instance(
            name,
            launch_template={"id": template.id, "version": template.latest_version.apply(str)},
            # The provider reads the instance's user data back. If the user data came from the template, the next
            # `pulumi up` would stop the instance and clear its user data:
            # https://github.com/pulumi/pulumi-aws/issues/3449
            user_data_base64=args.user_data,
            user_data_replace_on_change=True,
            # The provider always sends this setting, so the template's setting has no effect.
            monitoring=True,
            tags=self._tags,
            opts=pulumi.ResourceOptions(
                parent=self,
                depends_on=args.needs,
                replace_on_changes=["launchTemplate"],
                # Creating the replacement first would need a second reserved instance.
                delete_before_replace=spec.reservation is not None,
            ),
        )
        self.instance_id, self.private_address = self._instance.id, self._instance.private_ip
        self.public_address = self._create_address().public_ip if spec.ssh_cidrs else None
        self.register_outputs({"instanceId": self.instance_id})

    def _create_ssh_security_group(self, vpc_id: pulumi.Input[str]) -> pulumi.Output[str]:
        args, name = self._args, f"{self._name}-ssh"
        group = aws.ec2.SecurityGroup(
            **build_child_args(self, args.naming, name), vpc_id=vpc_id, description=f"SSH to {args.naming.cluster}"
        )
        for cidr in self._spec.ssh_cidrs:
            purpose = "SSH from an address in the settings of the stack"
            create_ingress_rule(name, args.naming, group.id, cidr, port=SSH, description=purpose, opts=self._child)
        return group.id

    def _create_launch_template(self, ssh_groups: Sequence[pulumi.Input[str]]) -> aws.ec2.LaunchTemplate:
        spec, args = self._spec, self._args
        primary, *secondary = spec.interfaces or (PRIMARY,)
        first = launch_template.build_network_interface(primary, [args.security_group_id, *ssh_groups])
        first["subnet_id"] = args.subnet_id
        rest = [launch_template.build_network_interface(interface, [args.security_group_id]) for interface in secondary]
        for interface in rest:
            interface["subnet_id"] = args.subnet_id
        return launch_template.create_launch_template(
            f"{self._name}-launch-template",
            description=f"Master of {args.naming.cluster}",
            tags=self._tags,
            root_device=spec.root_device,
            root_volume_gib=spec.root_volume_gib,
            security_groups=(),
            network_interfaces=[first, *rest],
            image_id=spec.ami_id,
            instance_type=spec.instance_type,
            market=spec.market,
            reservation=spec.reservation,
            placement_group=args.placement_group,
            profile_arn=args.role.profile_arn,
            tagged=("volume", "network-interface"),
            # Changing a tag would create a template version, and Pulumi would replace the head node.
            opts=pulumi.ResourceOptions(parent=self, ignore_changes=["tagSpecifications"]),
        )

    def _create_address(self) -> aws.ec2.Eip:
        return aws.ec2.Eip(
            **build_child_args(self, self._args.naming, f"{self._name}-address"),
            domain="vpc",
            network_interface=self._instance.primary_network_interface_id,
        )
