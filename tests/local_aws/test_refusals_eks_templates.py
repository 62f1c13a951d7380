"""Launch templates that EKS rejects for node groups."""

import base64

import pytest

from tests.local_aws.eks_refusing import (
    PARAMETER,
    REQUEST,
    Refusing,
    build_user_guide_url,
)
from tests.local_aws.refusals import Refusal


def encode_base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


REFUSALS = [
    Refusal(
        "a nonexistent template",
        "create_nodegroup",
        lambda world: world.build_node_group_params(launchTemplate={"id": "lt-0123456789abcdef0"}),
        PARAMETER,
        build_user_guide_url("launch-templates"),
        "does not exist",
    ),
    Refusal(
        "a launch template given by both id and name",
        "create_nodegroup",
        lambda world: world.build_node_group_params(launchTemplate={"id": "lt-0123456789abcdef0", "name": "a"}),
        PARAMETER,
        build_user_guide_url("launch-templates"),
        "Exactly one",
    ),
    Refusal(
        "a nonexistent launch template version",
        "create_nodegroup",
        lambda world: world.build_node_group_params(launchTemplate={**world.user_template, "version": "9"}),
        PARAMETER,
        build_user_guide_url("launch-templates"),
        "Could not find launch template version 9",
    ),
    Refusal(
        "a subnet in the launch template",
        "create_nodegroup",
        lambda world: world.build_params_with_template({"NetworkInterfaces": [{"DeviceIndex": 0, "SubnetId": world.subnets[0]}]}),
        PARAMETER,
        build_user_guide_url("launch-templates"),
        "subnet",
    ),
    Refusal(
        "an instance profile in the launch template",
        "create_nodegroup",
        lambda world: world.build_params_with_template({"IamInstanceProfile": {"Name": "p"}}),
        PARAMETER,
        build_user_guide_url("launch-templates"),
        "instance profile",
    ),
    Refusal(
        "a shutdown behavior",
        "create_nodegroup",
        lambda world: world.build_params_with_template({"InstanceInitiatedShutdownBehavior": "terminate"}),
        PARAMETER,
        build_user_guide_url("launch-templates"),
        "shutdown behavior",
    ),
    Refusal(
        "hibernation in the launch template",
        "create_nodegroup",
        lambda world: world.build_params_with_template({"HibernationOptions": {"Configured": True}}),
        PARAMETER,
        build_user_guide_url("launch-templates"),
        "hibernation",
    ),
    Refusal(
        "spot market options in the launch template",
        "create_nodegroup",
        lambda world: world.build_params_with_template({"InstanceMarketOptions": {"MarketType": "spot"}}),
        PARAMETER,
        build_user_guide_url("launch-templates"),
        "Instance market options are not supported with the launch template.",
    ),
    Refusal(
        "instance types in the launch template and in the request",
        "create_nodegroup",
        lambda world: world.build_params_with_template({"InstanceType": "m7i.large"}, instanceTypes=["m7i.large"]),
        REQUEST,
        build_user_guide_url("launch-templates"),
        "Cannot specify instance types in launch template and API request",
    ),
    Refusal(
        "both a disk size and a launch template",
        "create_nodegroup",
        lambda world: world.build_params_with_template({"EbsOptimized": True}, diskSize=100),
        PARAMETER,
        build_user_guide_url("launch-templates"),
        "Disk size must be specified within the launch template.",
    ),
    Refusal(
        "both remote access and a launch template",
        "create_nodegroup",
        lambda world: world.build_params_with_template({"EbsOptimized": True}, remoteAccess={"ec2SshKey": "k"}),
        PARAMETER,
        build_user_guide_url("launch-templates"),
        "Remote access configuration cannot be specified with a launch template.",
    ),
    Refusal(
        "both an image and an AMI type",
        "create_nodegroup",
        lambda world: world.build_params_with_template({"ImageId": world.find_plain_image()}, amiType="AL2023_x86_64_STANDARD"),
        PARAMETER,
        build_user_guide_url("launch-templates"),
        "You cannot specify an AMI Type other than CUSTOM, when specifying an image id in your launch template.",
    ),
    Refusal(
        "both an image and a Kubernetes version",
        "create_nodegroup",
        lambda world: world.build_params_with_template({"ImageId": world.find_plain_image()}, version="1.34"),
        PARAMETER,
        build_user_guide_url("launch-templates"),
        "custom AMIs",
    ),
    Refusal(
        "both an image and a release version",
        "create_nodegroup",
        lambda world: world.build_params_with_template({"ImageId": world.find_plain_image()}, releaseVersion="1.34.8-20260714"),
        PARAMETER,
        build_user_guide_url("launch-templates"),
        "custom AMIs",
    ),
    Refusal(
        "a nonexistent image",
        "create_nodegroup",
        lambda world: world.build_params_with_template({"ImageId": "ami-0123456789abcdef0"}),
        REQUEST,
        build_user_guide_url("launch-templates"),
        "does not exist",
    ),
    Refusal(
        "security groups on both the instance and its interfaces",
        "create_nodegroup",
        lambda world: world.build_params_with_template(
            {"SecurityGroupIds": [world.security_group(name="s")], "NetworkInterfaces": [{"DeviceIndex": 0}]}
        ),
        REQUEST,
        build_user_guide_url("launch-templates"),
        "Network interfaces and an instance-level security groups may not be specified on the same request",
    ),
    Refusal(
        "a nonexistent security group",
        "create_nodegroup",
        lambda world: world.build_params_with_template({"SecurityGroupIds": ["sg-0123456789abcdef0"]}),
        REQUEST,
        build_user_guide_url("launch-templates"),
        "sg-0123456789abcdef0",
    ),
    Refusal(
        "a plain script as user data",
        "create_nodegroup",
        lambda world: world.build_params_with_template({"UserData": encode_base64("#!/bin/sh\n")}),
        REQUEST,
        build_user_guide_url("launch-templates"),
        "User data was not in the MIME multipart format.",
    ),
    Refusal(
        "a capacity block without a template",
        "create_nodegroup",
        lambda world: world.build_node_group_params(capacityType="CAPACITY_BLOCK"),
        PARAMETER,
        build_user_guide_url("capacity-blocks-mng"),
        "launch template is required",
    ),
    Refusal(
        "a capacity block without its market type",
        "create_nodegroup",
        lambda world: world.build_block_params({"InstanceMarketOptions": None}),
        PARAMETER,
        build_user_guide_url("capacity-blocks-mng"),
        "market type capacity-block",
    ),
    Refusal(
        "a capacity block without its reservation",
        "create_nodegroup",
        lambda world: world.build_block_params({"CapacityReservationSpecification": None}),
        PARAMETER,
        build_user_guide_url("capacity-blocks-mng"),
        "capacity reservation target",
    ),
    Refusal(
        "a capacity block without an instance type",
        "create_nodegroup",
        lambda world: world.build_block_params({"InstanceType": None}, instanceTypes=["p5.48xlarge"]),
        PARAMETER,
        build_user_guide_url("capacity-blocks-mng"),
        "instance type must be specified in the launch template",
    ),
    Refusal(
        "market type capacity-block without capacity type CAPACITY_BLOCK",
        "create_nodegroup",
        lambda world: world.build_params_with_template({"InstanceMarketOptions": {"MarketType": "capacity-block"}}),
        PARAMETER,
        build_user_guide_url("capacity-blocks-mng"),
        "Instance market options are not supported",
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_eks_rejects_an_invalid_launch_template(shared_eks_world: Refusing, refusal: Refusal) -> None:
    refusal.check(shared_eks_world.eks, world=shared_eks_world)
    assert "new" not in shared_eks_world.eks.list_nodegroups(clusterName="demo")["nodegroups"]
