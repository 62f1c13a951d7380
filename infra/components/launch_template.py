"""Builder for the launch templates of EKS nodes and EC2 clusters."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import pulumi
import pulumi_aws as aws

from infra.components.instance_role import InstanceRole
from infra.naming import Naming
from infra.plan.efa_interfaces import Interface
from infra.plan.specs import Market, ReservationTarget

IMDS_HOP_LIMIT: Final = 1
"""With one hop, only processes in the host network can reach instance metadata and the credentials of the node role.
Pods get credentials from Pod Identity. Add-ons that read metadata (vpc-cni, pod-identity agent, node monitoring agent,
EFS CSI node) use the host network, and the EFS CSI controller falls back to the Kubernetes API."""

METADATA: Final[aws.ec2.LaunchTemplateMetadataOptionsArgsDict] = {
    "http_endpoint": "enabled",
    "http_tokens": "required",
    "http_put_response_hop_limit": IMDS_HOP_LIMIT,
}

NetworkInterface = aws.ec2.LaunchTemplateNetworkInterfaceArgsDict
TaggedKind = Literal["instance", "volume", "network-interface"]


@dataclass(frozen=True)
class Ec2NodeArgs:
    """Settings of the head node and the workers of an EC2 cluster."""

    naming: Naming
    role: InstanceRole
    security_group_id: pulumi.Input[str]
    subnet_id: pulumi.Input[str]
    """A public subnet if SSH is open to the node, otherwise a private one."""
    user_data: pulumi.Input[str]
    """Base64-encoded."""
    placement_group: pulumi.Input[str] | None
    after: Sequence[pulumi.Resource]
    """Resources that the node needs before it can boot."""

    @property
    def needs(self) -> list[pulumi.Resource]:
        """Resources that must exist before the node, including its permissions."""
        return [*self.after, *self.role.permissions]


def create_launch_template(
    name: str,
    *,
    description: str,
    tags: Mapping[str, str],
    root_device: str,
    root_volume_gib: int,
    security_groups: Sequence[pulumi.Input[str]],
    network_interfaces: Sequence[NetworkInterface],
    image_id: str | None,
    instance_type: str | None,
    market: Market,
    reservation: ReservationTarget | None,
    placement_group: pulumi.Input[str] | None,
    user_data: pulumi.Input[str] | None = None,
    profile_arn: pulumi.Input[str] | None = None,
    tagged: Sequence[TaggedKind] = ("instance", "volume", "network-interface"),
    opts: pulumi.ResourceOptions,
) -> aws.ec2.LaunchTemplate:
    """Create a launch template with an encrypted root volume, IMDSv2 and detailed monitoring. `user_data` is in base64.

    EC2 accepts security groups on the instance or on each interface, never both. `security_groups` are used if there are
    no `network_interfaces`: https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html
    """
    return aws.ec2.LaunchTemplate(
        name,
        description=description,
        update_default_version=True,
        image_id=image_id,
        instance_type=instance_type,
        iam_instance_profile={"arn": profile_arn} if profile_arn is not None else None,
        instance_market_options={"market_type": market} if market != "on-demand" else None,
        capacity_reservation_specification=_build_reservation_args(reservation),
        placement={"group_name": placement_group} if placement_group is not None else None,
        vpc_security_group_ids=None if network_interfaces else list(security_groups),
        network_interfaces=list(network_interfaces) or None,
        block_device_mappings=[_build_root_volume(root_device, root_volume_gib)],
        metadata_options=METADATA,
        monitoring={"enabled": True},
        tag_specifications=[{"resource_type": kind, "tags": tags} for kind in tagged],
        user_data=user_data,
        tags=tags,
        opts=opts,
    )


def build_network_interface(spec: Interface, security_groups: Sequence[pulumi.Input[str]]) -> NetworkInterface:
    """Return an interface without a subnet: the node group or Auto Scaling group sets the subnet, and the head node
    adds it. The setting for a public address is omitted, because EC2 rejects it if there is more than one interface."""
    return {
        "network_card_index": spec.network_card,
        "device_index": spec.device,
        "interface_type": spec.type,
        "security_groups": list(security_groups),
        "delete_on_termination": "true",
    }


def _build_root_volume(device: str, gib: int) -> aws.ec2.LaunchTemplateBlockDeviceMappingArgsDict:
    return {
        "device_name": device,
        "ebs": {"volume_type": "gp3", "volume_size": gib, "encrypted": "true", "delete_on_termination": "true"},
    }


def _build_reservation_args(
    reserved: ReservationTarget | None,
) -> aws.ec2.LaunchTemplateCapacityReservationSpecificationArgsDict | None:
    if reserved is None:
        return None
    if reserved.id is not None:
        return {"capacity_reservation_target": {"capacity_reservation_id": reserved.id}}
    return {"capacity_reservation_target": {"capacity_reservation_resource_group_arn": reserved.resource_group_arn}}
