"""Launches that EC2 refuses."""

from collections.abc import Iterator

import pytest

from tests.local_aws.ec2_refusals import API, ERRORS, GUIDE, check, launch, refusing_world
from tests.local_aws.ec2_world import World, image
from tests.local_aws.refusals import Refusal


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with refusing_world() as made:
        yield made


def default_group(world: World) -> str:
    """Of the default VPC."""
    groups = world.ec2.describe_security_groups(Filters=[{"Name": "group-name", "Values": ["default"]}])["SecurityGroups"]
    return str(next(group["GroupId"] for group in groups if group["VpcId"] != world.vpc))


INSTANCES = [
    Refusal("no image", "run_instances", launch(ImageId=None), "MissingParameter", ERRORS),
    Refusal(
        "an image that is not there", "run_instances", launch(ImageId="ami-00000000000000000"), "InvalidAMIID.NotFound", ERRORS
    ),
    Refusal("an image id that is none", "run_instances", launch(ImageId="al2023"), "InvalidAMIID.Malformed", ERRORS),
    Refusal(
        "a type that is not there",
        "run_instances",
        launch(InstanceType="g5.xlarg"),
        "InvalidParameterValue",
        ERRORS,
        "Invalid value 'g5.xlarg' for InstanceType.",
    ),
    Refusal(
        "an image of another architecture",
        "run_instances",
        launch(ImageId=image("arm64")),
        "InvalidParameterValue",
        ERRORS,
        "architecture",
    ),
    Refusal(
        "a zone that does not offer the type",
        "run_instances",
        launch(InstanceType="p5en.48xlarge", SubnetId=lambda world: world.subnets[1]),
        "Unsupported",
        f"{GUIDE}/troubleshooting-launch.html",
        "not supported in your requested Availability Zone (us-west-2b)",
    ),
    Refusal(
        "a subnet that is not there",
        "run_instances",
        launch(SubnetId="subnet-00000000000000000"),
        "InvalidSubnetID.NotFound",
        ERRORS,
    ),
    Refusal(
        "a security group that is not there",
        "run_instances",
        launch(SecurityGroupIds=["sg-00000000000000000"]),
        "InvalidGroup.NotFound",
        ERRORS,
    ),
    Refusal(
        "a security group of another VPC",
        "run_instances",
        launch(SecurityGroupIds=lambda world: [default_group(world)]),
        "InvalidParameter",
        ERRORS,
        "belong to different networks",
    ),
    Refusal("a key that is not there", "run_instances", launch(KeyName="nobody"), "InvalidKeyPair.NotFound", ERRORS),
    Refusal(
        "an instance profile that is not there",
        "run_instances",
        launch(IamInstanceProfile={"Name": "nobody"}),
        "InvalidParameterValue",
        f"{API}/API_IamInstanceProfileSpecification.html",
        "Invalid IAM Instance Profile name",
    ),
    Refusal(
        "an instance profile without a role",
        "run_instances",
        launch(IamInstanceProfile={"Name": "empty"}),
        "InvalidParameterValue",
        f"{API}/API_IamInstanceProfileSpecification.html",
        "has no associated IAM Roles",
    ),
    Refusal(
        "a placement group that is not there",
        "run_instances",
        launch(Placement={"GroupName": "nobody"}),
        "InvalidPlacementGroup.Unknown",
        ERRORS,
    ),
    Refusal(
        "a type that no cluster placement group takes",
        "run_instances",
        launch(InstanceType="t3.large", ImageId=image(variant="standard"), Placement={"GroupName": "close"}),
        "InvalidParameterCombination",
        f"{GUIDE}/placement-strategies.html",
    ),
    Refusal(
        "subnet and zone that do not agree",
        "run_instances",
        launch(Placement={"AvailabilityZone": "us-west-2b"}),
        "InvalidParameterValue",
        f"{API}/API_RunInstances.html",
    ),
    Refusal(
        "more instances than addresses",
        "run_instances",
        launch(MinCount=300, MaxCount=300),
        "InsufficientFreeAddressesInSubnet",
        ERRORS,
        "There are not enough free addresses in subnet",
    ),
    Refusal(
        "user data of more than 16 KiB",
        "run_instances",
        launch(UserData="x" * 16385),
        "InvalidParameterValue",
        f"{GUIDE}/user-data.html",
        "User data is limited to 16384 bytes",
    ),
    Refusal(
        "a hop limit of 0",
        "run_instances",
        launch(MetadataOptions={"HttpPutResponseHopLimit": 0}),
        "InvalidParameterValue",
        f"{API}/API_InstanceMetadataOptionsRequest.html",
    ),
    Refusal(
        "a root volume smaller than the image",
        "run_instances",
        launch(BlockDeviceMappings=[{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 8}}]),
        "InvalidBlockDeviceMapping",
        ERRORS,
        "Volume of size 8GB is smaller than snapshot",
    ),
    Refusal(
        "a volume without a size",
        "run_instances",
        launch(BlockDeviceMappings=[{"DeviceName": "/dev/sdf", "Ebs": {"VolumeType": "gp3"}}]),
        "MissingParameter",
        f"{API}/API_EbsBlockDevice.html",
    ),
    Refusal(
        "a volume type that is not there",
        "run_instances",
        launch(BlockDeviceMappings=[{"DeviceName": "/dev/sdf", "Ebs": {"VolumeType": "gp9", "VolumeSize": 10}}]),
        "InvalidParameterValue",
        f"{API}/API_EbsBlockDevice.html",
    ),
    Refusal(
        "tags for a resource that a launch does not make",
        "run_instances",
        launch(TagSpecifications=[{"ResourceType": "vpc", "Tags": [{"Key": "a", "Value": "b"}]}]),
        "InvalidParameterValue",
        f"{API}/API_TagSpecification.html",
    ),
    Refusal(
        "a tag of AWS's",
        "run_instances",
        launch(TagSpecifications=[{"ResourceType": "instance", "Tags": [{"Key": "aws:a", "Value": "b"}]}]),
        "InvalidParameterValue",
        f"{GUIDE}/Using_Tags.html",
    ),
    Refusal("a dry run of a good launch", "run_instances", launch(DryRun=True), "DryRunOperation", ERRORS),
    Refusal("a minimum above the maximum", "run_instances", launch(MinCount=3, MaxCount=2), "InvalidParameterValue", ERRORS),
    Refusal(
        "an instance that is not there",
        "describe_instances",
        {"InstanceIds": ["i-00000000000000000"]},
        "InvalidInstanceID.NotFound",
        ERRORS,
    ),
    Refusal("no instance named", "terminate_instances", {"InstanceIds": []}, "InvalidParameterCombination", ERRORS),
    Refusal(
        "a filter that is not there",
        "describe_instances",
        {"Filters": [{"Name": "color", "Values": ["red"]}]},
        "InvalidParameterValue",
        f"{API}/API_DescribeInstances.html",
        "The filter 'color' is invalid",
    ),
    Refusal(
        "a type that is not there",
        "describe_instance_types",
        {"InstanceTypes": ["g5.xlarg"]},
        "InvalidInstanceType",
        ERRORS,
        "[g5.xlarg]",
    ),
    Refusal(
        "an image that is not there", "describe_images", {"ImageIds": ["ami-00000000000000000"]}, "InvalidAMIID.NotFound", ERRORS
    ),
]


@pytest.mark.parametrize("refusal", INSTANCES, ids=str)
def test_ec2_refuses_and_creates_nothing(world: World, refusal: Refusal) -> None:
    check(world, refusal)
