"""What launch templates of EKS nodes and of plain EC2 nodes have in common."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pulumi
import pulumi_aws as aws

from infra.instances import Interface

IMDS_HOP_LIMIT: Final = 1
"""Only the host reaches the instance's metadata, and so the node's role. Pods get credentials from Pod Identity; the add-ons
that read metadata (vpc-cni, pod-identity agent, node monitoring agent, EFS CSI node) run in the host's network, and the EFS
CSI controller falls back to the Kubernetes API."""

METADATA: Final[aws.ec2.LaunchTemplateMetadataOptionsArgsDict] = {
    "http_endpoint": "enabled",
    "http_tokens": "required",
    "http_put_response_hop_limit": IMDS_HOP_LIMIT,
}


@dataclass(frozen=True)
class Reservation:
    """Capacity that was reserved: one reservation, or a resource group of them."""

    id: str | None = None
    resource_group_arn: str | None = None


def root_disk(device: str, gib: int) -> aws.ec2.LaunchTemplateBlockDeviceMappingArgsDict:
    return {
        "device_name": device,
        "ebs": {"volume_type": "gp3", "volume_size": gib, "encrypted": "true", "delete_on_termination": "true"},
    }


def interface(one: Interface, security_groups: Sequence[pulumi.Input[str]]) -> aws.ec2.LaunchTemplateNetworkInterfaceArgsDict:
    """No subnet (the group's is taken) and no word on public addresses (EC2 forbids it with more than one interface)."""
    return {
        "network_card_index": one.network_card,
        "device_index": one.device,
        "interface_type": one.type,
        "security_groups": list(security_groups),
        "delete_on_termination": "true",
    }


def reservation(reserved: Reservation | None) -> aws.ec2.LaunchTemplateCapacityReservationSpecificationArgsDict | None:
    if reserved is None:
        return None
    if reserved.id is not None:
        return {"capacity_reservation_target": {"capacity_reservation_id": reserved.id}}
    return {"capacity_reservation_target": {"capacity_reservation_resource_group_arn": reserved.resource_group_arn}}
