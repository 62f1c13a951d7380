"""The properties of an EC2 instance that its node reports."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from infra.facts.instance_types import InstanceType
from infra.naming import EFA_RESOURCE, GPU_RESOURCE
from localcloud.aws import images
from localcloud.aws.eks.node_groups.tags import CLUSTER_TAG, NODE_GROUP_TAG
from localcloud.kubernetes.nodes import user_data
from localcloud.kubernetes.nodes.user_data import UserData

EFA_INTERFACES = ("efa", "efa-only")
MEMORY_SHARE = 0.97
"""Share of the instance type's memory that Linux reports (p4d.24xlarge: 97.4%). The firmware and the kernel use the rest."""
HUGE_PAGE_KIB = 2048

Kind = Literal["cpu", "gpu"]


@dataclass(frozen=True)
class Machine:
    """One EC2 instance of a cluster."""

    id: str
    name: str
    """Private DNS name of the instance, which is also the node's name."""
    address: str
    """Private IP address."""
    cluster: str
    node_group: str
    region: str
    zone: str
    zone_id: str
    image: str
    version: str | None
    """Kubernetes version of the AMI; None if it is not an EKS AMI."""
    type: InstanceType
    efa_interfaces: int
    maximum_pods: int
    user_data: UserData

    @property
    def kind(self) -> Kind:
        return "gpu" if self.type.gpus else "cpu"

    @property
    def provider_id(self) -> str:
        return f"aws:///{self.zone}/{self.id}"

    @property
    def memory_kib(self) -> int:
        return int(self.type.memory_mib * 1024 * MEMORY_SHARE)

    @property
    def huge_page_kib(self) -> int:
        return self.user_data.huge_pages * HUGE_PAGE_KIB

    @property
    def devices(self) -> dict[str, int]:
        """Number of devices that device plugins report, keyed by resource name. Only NVIDIA GPUs are supported."""
        gpus = self.type.gpus if self.type.has_nvidia_gpus else 0
        device_counts = {GPU_RESOURCE: gpus, EFA_RESOURCE: self.efa_interfaces}
        return {name: number for name, number in device_counts.items() if number}


def parse_instance(
    described: Mapping[str, Any], encoded_user_data: str | None, instance_type: Mapping[str, Any], zone_id: str, region: str
) -> Machine | None:
    """Convert an instance from DescribeInstances. Return None if the instance does not belong to an EKS node group."""
    tags = get_tags(described)
    if CLUSTER_TAG not in tags or NODE_GROUP_TAG not in tags:
        return None
    interfaces = described.get("NetworkInterfaces", ())
    return Machine(
        id=described["InstanceId"],
        name=described["PrivateDnsName"],
        address=described["PrivateIpAddress"],
        cluster=tags[CLUSTER_TAG],
        node_group=tags[NODE_GROUP_TAG],
        region=region,
        zone=described["Placement"]["AvailabilityZone"],
        zone_id=zone_id,
        image=described["ImageId"],
        version=images.find_kubernetes_version(region, described["ImageId"]),
        type=InstanceType.from_ec2(instance_type),
        efa_interfaces=sum(interface.get("InterfaceType") in EFA_INTERFACES for interface in interfaces),
        maximum_pods=compute_maximum_pods(instance_type),
        user_data=user_data.parse_user_data(encoded_user_data),
    )


def get_tags(described: Mapping[str, Any]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in described.get("Tags", ())}


def compute_maximum_pods(instance_type: Mapping[str, Any]) -> int:
    """Return max-pods as EKS calculates it for the VPC CNI plugin, up to EKS's recommended maximum.

    https://docs.aws.amazon.com/eks/latest/userguide/choosing-instance-type.html#determine-max-pods
    """
    network = instance_type["NetworkInfo"]
    cards = network.get("NetworkCards", ())
    default = network.get("DefaultNetworkCardIndex", 0)
    own = [card["MaximumNetworkInterfaces"] for card in cards if card["NetworkCardIndex"] == default]
    interfaces = own[0] if own else network["MaximumNetworkInterfaces"]
    most = 110 if instance_type["VCpuInfo"]["DefaultVCpus"] < 30 else 250
    return min(most, int(interfaces) * (int(network["Ipv4AddressesPerInterface"]) - 1) + 2)
