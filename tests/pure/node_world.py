"""Test data for EC2 instances in the local AWS that become local nodes."""

from typing import Any

from moto.ec2.models.instance_types import INSTANCE_TYPES

from infra.boot import eks_node
from infra.naming import GPU_TAINT
from localcloud.kubernetes.nodes import machine as machines
from localcloud.kubernetes.nodes.machine import Machine

LABELS = {"gpumpi.io/pool": "train", "nvidia.com/gpu.present": "true"}


def make_user_data(*, huge_pages: int = 0, labels: dict[str, str] | None = None, cluster: str = "demo") -> str:
    """Return the user data of a GPU pool with a custom AMI."""
    access = eks_node.ClusterAccess(cluster, "https://10.0.0.1", "Y2E=", "172.20.0.0/16")
    config = eks_node.build_node_config(
        raid0=True, pinned_memory=True, cluster=access, labels=LABELS if labels is None else labels, taints=[GPU_TAINT]
    )
    return eks_node.encode_base64(eks_node.render_user_data(config, huge_pages=huge_pages))


def describe_instance(
    instance_id: str = "i-0a", kind: str = "p4d.24xlarge", address: str = "10.0.1.7", **more: Any
) -> dict[str, Any]:
    """Return an instance as DescribeInstances reports it."""
    tags = {"eks:cluster-name": "demo", "eks:nodegroup-name": "train"}
    return {
        "InstanceId": instance_id,
        "PrivateDnsName": f"ip-{address.replace('.', '-')}.us-west-2.compute.internal",
        "PrivateIpAddress": address,
        "Placement": {"AvailabilityZone": "us-west-2a"},
        "ImageId": "ami-0abc",
        "InstanceType": kind,
        "Tags": [{"Key": key, "Value": value} for key, value in tags.items()],
        "NetworkInterfaces": [{"InterfaceType": "interface"}, *([{"InterfaceType": "efa-only"}] * 4)],
        **more,
    }


def make_machine(instance_id: str = "i-0a", kind: str = "p4d.24xlarge", user_data: str | None = None, **more: Any) -> Machine:
    text = make_user_data(huge_pages=5128) if user_data is None else user_data
    node = machines.parse_instance(
        describe_instance(instance_id, kind, **more), text, INSTANCE_TYPES[kind], "usw2-az1", "us-west-2"
    )
    assert node is not None
    return node
