"""Launches that EC2 rejects."""

from collections.abc import Iterator

import pytest

from tests.local_aws.ec2_refusals import API, ERRORS, GUIDE, check_refusal, launch_params, shared_ec2_world
from tests.local_aws.ec2_world import World, find_eks_ami
from tests.local_aws.refusals import Refusal


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with shared_ec2_world() as refusing:
        yield refusing


def find_default_group(world: World) -> str:
    """Return the id of the default VPC's security group."""
    groups = world.ec2.describe_security_groups(Filters=[{"Name": "group-name", "Values": ["default"]}])["SecurityGroups"]
    return str(next(group["GroupId"] for group in groups if group["VpcId"] != world.vpc))


INSTANCES = [
    Refusal("a launch without an image", "run_instances", launch_params(ImageId=None), "MissingParameter", ERRORS),
    Refusal(
        "a nonexistent image", "run_instances", launch_params(ImageId="ami-00000000000000000"), "InvalidAMIID.NotFound", ERRORS
    ),
    Refusal("a malformed image id", "run_instances", launch_params(ImageId="al2023"), "InvalidAMIID.Malformed", ERRORS),
    Refusal(
        "a nonexistent instance type",
        "run_instances",
        launch_params(InstanceType="g5.xlarg"),
        "InvalidParameterValue",
        ERRORS,
        "Invalid value 'g5.xlarg' for InstanceType.",
    ),
    Refusal(
        "an image of another architecture",
        "run_instances",
        launch_params(ImageId=find_eks_ami("arm64")),
        "InvalidParameterValue",
        ERRORS,
        "architecture",
    ),
    Refusal(
        "a zone that does not offer the instance type",
        "run_instances",
        launch_params(InstanceType="p5en.48xlarge", SubnetId=lambda world: world.subnets[1]),
        "Unsupported",
        f"{GUIDE}/troubleshooting-launch.html",
        "not supported in your requested Availability Zone (us-west-2b)",
    ),
    Refusal(
        "a nonexistent subnet",
        "run_instances",
        launch_params(SubnetId="subnet-00000000000000000"),
        "InvalidSubnetID.NotFound",
        ERRORS,
    ),
    Refusal(
        "a nonexistent security group",
        "run_instances",
        launch_params(SecurityGroupIds=["sg-00000000000000000"]),
        "InvalidGroup.NotFound",
        ERRORS,
    ),
    Refusal(
        "a security group of another VPC",
        "run_instances",
        launch_params(SecurityGroupIds=lambda world: [find_default_group(world)]),
        "InvalidParameter",
        ERRORS,
        "belong to different networks",
    ),
    Refusal("a nonexistent key pair", "run_instances", launch_params(KeyName="nobody"), "InvalidKeyPair.NotFound", ERRORS),
    Refusal(
        "a nonexistent instance profile",
        "run_instances",
        launch_params(IamInstanceProfile={"Name": "nobody"}),
        "InvalidParameterValue",
        f"{API}/API_IamInstanceProfileSpecification.html",
        "Invalid IAM Instance Profile name",
    ),
    Refusal(
        "an instance profile without a role",
        "run_instances",
        launch_params(IamInstanceProfile={"Name": "empty"}),
        "InvalidParameterValue",
        f"{API}/API_IamInstanceProfileSpecification.html",
        "has no associated IAM Roles",
    ),
    Refusal(
        "a nonexistent placement group",
        "run_instances",
        launch_params(Placement={"GroupName": "nobody"}),
        "InvalidPlacementGroup.Unknown",
        ERRORS,
    ),
    Refusal(
        "an instance type that cluster placement groups do not accept",
        "run_instances",
        launch_params(InstanceType="t3.large", ImageId=find_eks_ami(variant="standard"), Placement={"GroupName": "close"}),
        "InvalidParameterCombination",
        f"{GUIDE}/placement-strategies.html",
    ),
    Refusal(
        "a subnet outside the given zone",
        "run_instances",
        launch_params(Placement={"AvailabilityZone": "us-west-2b"}),
        "InvalidParameterValue",
        f"{API}/API_RunInstances.html",
    ),
    Refusal(
        "more instances than free addresses",
        "run_instances",
        launch_params(MinCount=300, MaxCount=300),
        "InsufficientFreeAddressesInSubnet",
        ERRORS,
        "There are not enough free addresses in subnet",
    ),
    Refusal(
        "user data larger than 16 KiB",
        "run_instances",
        launch_params(UserData="x" * 16385),
        "InvalidParameterValue",
        f"{GUIDE}/user-data.html",
        "User data is limited to 16384 bytes",
    ),
    Refusal(
        "a hop limit of 0",
        "run_instances",
        launch_params(MetadataOptions={"HttpPutResponseHopLimit": 0}),
        "InvalidParameterValue",
        f"{API}/API_InstanceMetadataOptionsRequest.html",
    ),
    Refusal(
        "a root volume smaller than the image",
        "run_instances",
        launch_params(BlockDeviceMappings=[{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 8}}]),
        "InvalidBlockDeviceMapping",
        ERRORS,
        "Volume of size 8GB is smaller than snapshot",
    ),
    Refusal(
        "a volume without a size",
        "run_instances",
        launch_params(BlockDeviceMappings=[{"DeviceName": "/dev/sdf", "Ebs": {"VolumeType": "gp3"}}]),
        "MissingParameter",
        f"{API}/API_EbsBlockDevice.html",
    ),
    Refusal(
        "an unknown volume type",
        "run_instances",
        launch_params(BlockDeviceMappings=[{"DeviceName": "/dev/sdf", "Ebs": {"VolumeType": "gp9", "VolumeSize": 10}}]),
        "InvalidParameterValue",
        f"{API}/API_EbsBlockDevice.html",
    ),
    Refusal(
        "tags for a resource type that a launch does not create",
        "run_instances",
        launch_params(TagSpecifications=[{"ResourceType": "vpc", "Tags": [{"Key": "a", "Value": "b"}]}]),
        "InvalidParameterValue",
        f"{API}/API_TagSpecification.html",
    ),
    Refusal(
        "a reserved tag",
        "run_instances",
        launch_params(TagSpecifications=[{"ResourceType": "instance", "Tags": [{"Key": "aws:a", "Value": "b"}]}]),
        "InvalidParameterValue",
        f"{GUIDE}/Using_Tags.html",
    ),
    Refusal("a dry run that would succeed", "run_instances", launch_params(DryRun=True), "DryRunOperation", ERRORS),
    Refusal(
        "a minimum above the maximum", "run_instances", launch_params(MinCount=3, MaxCount=2), "InvalidParameterValue", ERRORS
    ),
    Refusal(
        "a nonexistent instance",
        "describe_instances",
        {"InstanceIds": ["i-00000000000000000"]},
        "InvalidInstanceID.NotFound",
        ERRORS,
    ),
    Refusal("an empty list of instances", "terminate_instances", {"InstanceIds": []}, "InvalidParameterCombination", ERRORS),
    Refusal(
        "an unknown filter",
        "describe_instances",
        {"Filters": [{"Name": "color", "Values": ["red"]}]},
        "InvalidParameterValue",
        f"{API}/API_DescribeInstances.html",
        "The filter 'color' is invalid",
    ),
    Refusal(
        "a nonexistent instance type",
        "describe_instance_types",
        {"InstanceTypes": ["g5.xlarg"]},
        "InvalidInstanceType",
        ERRORS,
        "[g5.xlarg]",
    ),
    Refusal("a nonexistent image", "describe_images", {"ImageIds": ["ami-00000000000000000"]}, "InvalidAMIID.NotFound", ERRORS),
]


@pytest.mark.parametrize("refusal", INSTANCES, ids=str)
def test_ec2_rejects_invalid_requests_and_creates_nothing(world: World, refusal: Refusal) -> None:
    check_refusal(world, refusal)
