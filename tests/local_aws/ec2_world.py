"""A VPC in which tests launch instances."""

import json
from dataclasses import dataclass
from typing import Any

from localcloud.aws.images import IMAGES
from testkit.aws_clients import REGION, Client

ZONES = ("us-west-2a", "us-west-2b", "us-west-2c")
TRUST = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}],
    }
)


def find_eks_ami(architecture: str = "x86_64", variant: str = "nvidia", region: str = REGION) -> str:
    """Return the id of an EKS-optimized AMI."""
    return next(item.id(region) for item in IMAGES if f"{architecture}-{variant}-1.35" in item.name)


@dataclass(frozen=True)
class World:
    """A VPC with a subnet in each of three zones, and a security group."""

    client: Client
    ec2: Any
    vpc: str
    subnets: tuple[str, ...]
    group: str

    def create_instance_profile(self) -> str:
        """Create an instance profile; return its name."""
        iam = self.client("iam")
        iam.create_role(RoleName="node", AssumeRolePolicyDocument=TRUST)
        iam.create_instance_profile(InstanceProfileName="node")
        iam.add_role_to_instance_profile(InstanceProfileName="node", RoleName="node")
        return "node"

    def run(self, **changes: Any) -> list[dict[str, Any]]:
        """Launch a g5.8xlarge in the first subnet. `changes` override parameters; None removes a parameter."""
        params: dict[str, Any] = {
            "ImageId": find_eks_ami(),
            "InstanceType": "g5.8xlarge",
            "MinCount": 1,
            "MaxCount": 1,
            "SubnetId": self.subnets[0],
            "SecurityGroupIds": [self.group],
            **changes,
        }
        answer = self.ec2.run_instances(**{name: value for name, value in params.items() if value is not None})
        return list(answer["Instances"])

    def describe_instances(self, *ids: str) -> list[dict[str, Any]]:
        reservations = self.ec2.describe_instances(InstanceIds=list(ids))["Reservations"]
        return [instance for reservation in reservations for instance in reservation["Instances"]]

    def template(self, name: str = "nodes", **data: Any) -> str:
        """Create a launch template for one g5.8xlarge; return its id."""
        full = {"ImageId": find_eks_ami(), "InstanceType": "g5.8xlarge", "SecurityGroupIds": [self.group], **data}
        full = {key: value for key, value in full.items() if value is not None}
        return str(
            self.ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData=full)["LaunchTemplate"][
                "LaunchTemplateId"
            ]
        )

    def count_free_addresses(self, subnet: str) -> int:
        return int(self.ec2.describe_subnets(SubnetIds=[subnet])["Subnets"][0]["AvailableIpAddressCount"])


def make_world(client: Client, prefix_length: int = 24) -> World:
    ec2 = client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    for setting in ("EnableDnsSupport", "EnableDnsHostnames"):
        ec2.modify_vpc_attribute(VpcId=vpc, **{setting: {"Value": True}})
    subnets = tuple(
        ec2.create_subnet(VpcId=vpc, CidrBlock=f"10.0.{number}.0/{prefix_length}", AvailabilityZone=zone)["Subnet"]["SubnetId"]
        for number, zone in enumerate(ZONES)
    )
    group = ec2.create_security_group(GroupName="nodes", Description="nodes", VpcId=vpc)["GroupId"]
    return World(client, ec2, vpc, subnets, group)
