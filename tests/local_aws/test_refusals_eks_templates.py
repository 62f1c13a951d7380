"""Launch templates of node groups that EKS refuses."""

import base64

import pytest

from tests.local_aws.eks_refusing import (
    PARAMETER,
    REQUEST,
    Refusing,
    guide,
)
from tests.local_aws.refusals import Refusal


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


REFUSALS = [
    Refusal(
        "a template that does not exist",
        "create_nodegroup",
        lambda world: world.group(launchTemplate={"id": "lt-0123456789abcdef0"}),
        PARAMETER,
        guide("launch-templates"),
        "does not exist",
    ),
    Refusal(
        "a template by id and name",
        "create_nodegroup",
        lambda world: world.group(launchTemplate={"id": "lt-0123456789abcdef0", "name": "a"}),
        PARAMETER,
        guide("launch-templates"),
        "Exactly one",
    ),
    Refusal(
        "a version of it that does not exist",
        "create_nodegroup",
        lambda world: world.group(launchTemplate={**world.user_template, "version": "9"}),
        PARAMETER,
        guide("launch-templates"),
        "Could not find launch template version 9",
    ),
    Refusal(
        "a subnet",
        "create_nodegroup",
        lambda world: world.with_template({"NetworkInterfaces": [{"DeviceIndex": 0, "SubnetId": world.subnets[0]}]}),
        PARAMETER,
        guide("launch-templates"),
        "subnet",
    ),
    Refusal(
        "an instance profile",
        "create_nodegroup",
        lambda world: world.with_template({"IamInstanceProfile": {"Name": "p"}}),
        PARAMETER,
        guide("launch-templates"),
        "instance profile",
    ),
    Refusal(
        "a shutdown behavior",
        "create_nodegroup",
        lambda world: world.with_template({"InstanceInitiatedShutdownBehavior": "terminate"}),
        PARAMETER,
        guide("launch-templates"),
        "shutdown behavior",
    ),
    Refusal(
        "hibernation",
        "create_nodegroup",
        lambda world: world.with_template({"HibernationOptions": {"Configured": True}}),
        PARAMETER,
        guide("launch-templates"),
        "hibernation",
    ),
    Refusal(
        "spot, which is the node group's matter",
        "create_nodegroup",
        lambda world: world.with_template({"InstanceMarketOptions": {"MarketType": "spot"}}),
        PARAMETER,
        guide("launch-templates"),
        "Instance market options are not supported with the launch template.",
    ),
    Refusal(
        "an instance type beside the node group's",
        "create_nodegroup",
        lambda world: world.with_template({"InstanceType": "m7i.large"}, instanceTypes=["m7i.large"]),
        REQUEST,
        guide("launch-templates"),
        "Cannot specify instance types in launch template and API request",
    ),
    Refusal(
        "a disk size beside it",
        "create_nodegroup",
        lambda world: world.with_template({"EbsOptimized": True}, diskSize=100),
        PARAMETER,
        guide("launch-templates"),
        "Disk size must be specified within the launch template.",
    ),
    Refusal(
        "remote access beside it",
        "create_nodegroup",
        lambda world: world.with_template({"EbsOptimized": True}, remoteAccess={"ec2SshKey": "k"}),
        PARAMETER,
        guide("launch-templates"),
        "Remote access configuration cannot be specified with a launch template.",
    ),
    Refusal(
        "an image beside an AMI type",
        "create_nodegroup",
        lambda world: world.with_template({"ImageId": world.image()}, amiType="AL2023_x86_64_STANDARD"),
        PARAMETER,
        guide("launch-templates"),
        "You cannot specify an AMI Type other than CUSTOM, when specifying an image id in your launch template.",
    ),
    Refusal(
        "an image beside a version",
        "create_nodegroup",
        lambda world: world.with_template({"ImageId": world.image()}, version="1.34"),
        PARAMETER,
        guide("launch-templates"),
        "custom AMIs",
    ),
    Refusal(
        "an image beside a release",
        "create_nodegroup",
        lambda world: world.with_template({"ImageId": world.image()}, releaseVersion="1.34.8-20260714"),
        PARAMETER,
        guide("launch-templates"),
        "custom AMIs",
    ),
    Refusal(
        "an image that does not exist",
        "create_nodegroup",
        lambda world: world.with_template({"ImageId": "ami-0123456789abcdef0"}),
        REQUEST,
        guide("launch-templates"),
        "does not exist",
    ),
    Refusal(
        "security groups of the instance and of interfaces",
        "create_nodegroup",
        lambda world: world.with_template(
            {"SecurityGroupIds": [world.security_group(name="s")], "NetworkInterfaces": [{"DeviceIndex": 0}]}
        ),
        REQUEST,
        guide("launch-templates"),
        "Network interfaces and an instance-level security groups may not be specified on the same request",
    ),
    Refusal(
        "a security group that does not exist",
        "create_nodegroup",
        lambda world: world.with_template({"SecurityGroupIds": ["sg-0123456789abcdef0"]}),
        REQUEST,
        guide("launch-templates"),
        "sg-0123456789abcdef0",
    ),
    Refusal(
        "a plain script as user data",
        "create_nodegroup",
        lambda world: world.with_template({"UserData": encoded("#!/bin/sh\n")}),
        REQUEST,
        guide("launch-templates"),
        "User data was not in the MIME multipart format.",
    ),
    Refusal(
        "a capacity block without a template",
        "create_nodegroup",
        lambda world: world.group(capacityType="CAPACITY_BLOCK"),
        PARAMETER,
        guide("capacity-blocks-mng"),
        "launch template is required",
    ),
    Refusal(
        "a capacity block without its market",
        "create_nodegroup",
        lambda world: world.block({"InstanceMarketOptions": None}),
        PARAMETER,
        guide("capacity-blocks-mng"),
        "market type capacity-block",
    ),
    Refusal(
        "a capacity block without its reservation",
        "create_nodegroup",
        lambda world: world.block({"CapacityReservationSpecification": None}),
        PARAMETER,
        guide("capacity-blocks-mng"),
        "capacity reservation target",
    ),
    Refusal(
        "a capacity block without its type",
        "create_nodegroup",
        lambda world: world.block({"InstanceType": None}, instanceTypes=["p5.48xlarge"]),
        PARAMETER,
        guide("capacity-blocks-mng"),
        "instance type must be specified in the launch template",
    ),
    Refusal(
        "the market of a capacity block without that capacity type",
        "create_nodegroup",
        lambda world: world.with_template({"InstanceMarketOptions": {"MarketType": "capacity-block"}}),
        PARAMETER,
        guide("capacity-blocks-mng"),
        "Instance market options are not supported",
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_eks_refuses_a_bad_launch_template(refusing: Refusing, refusal: Refusal) -> None:
    refusal.check(refusing.eks, world=refusing)
    assert "new" not in refusing.eks.list_nodegroups(clusterName="demo")["nodegroups"]
