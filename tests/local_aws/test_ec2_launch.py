"""EC2 launches: every field of RunInstances and of a launch template takes effect."""

import base64
from typing import Any

import pytest
from botocore.exceptions import ClientError

from localcloud.aws import durations
from localcloud.aws.ec2 import instance_types
from testkit.aws_clients import Client
from tests.local_aws.ec2_world import World, find_eks_ami, make_world


@pytest.fixture
def world(aws: Client) -> World:
    return make_world(aws)


def build_efa_interfaces(world: World, instance_type: str) -> list[dict[str, Any]]:
    """Return AWS's recommended interfaces: one ENA interface, and one efa-only interface per network card with EFA."""
    facts = instance_types.find_type_facts(instance_type)
    assert facts is not None
    layout: list[dict[str, Any]] = [{"NetworkCardIndex": 0, "DeviceIndex": 0, "InterfaceType": "interface"}]
    for card, data in sorted(facts.cards.items()):
        if "efa-only" in data.types:
            layout.append({"NetworkCardIndex": card, "DeviceIndex": 1 if card == 0 else 0, "InterfaceType": "efa-only"})
    return [{**item, "SubnetId": world.subnets[0], "Groups": [world.group]} for item in layout]


@pytest.mark.parametrize(
    ("instance_type", "total", "efa"),
    [("p4d.24xlarge", 5, 4), ("p5.48xlarge", 33, 32), ("p5en.48xlarge", 17, 16), ("g5.8xlarge", 2, 1), ("g6e.48xlarge", 5, 4)],
)
def test_an_instance_has_all_its_interfaces_and_one_private_address(
    world: World, instance_type: str, total: int, efa: int
) -> None:
    before = world.count_free_addresses(world.subnets[0])
    zone = instance_types.find_offered_zones("us-west-2")[instance_type][0]
    subnet = world.subnets[("us-west-2a", "us-west-2b", "us-west-2c").index(zone)]
    layout = [{**item, "SubnetId": subnet} for item in build_efa_interfaces(world, instance_type)]
    instance = world.run(InstanceType=instance_type, SubnetId=None, SecurityGroupIds=None, NetworkInterfaces=layout)[0]
    interfaces = world.describe_instances(instance["InstanceId"])[0]["NetworkInterfaces"]
    expected = [(item["NetworkCardIndex"], item["DeviceIndex"], item["InterfaceType"]) for item in layout]
    actual = [
        (item["Attachment"]["NetworkCardIndex"], item["Attachment"]["DeviceIndex"], item["InterfaceType"]) for item in interfaces
    ]
    assert actual == expected
    assert (len(actual), sum(kind == "efa-only" for _, _, kind in actual)) == (total, efa)
    assert [bool(item.get("PrivateIpAddress")) for item in interfaces] == [True] + [False] * efa
    assert all(item["Groups"] == [{"GroupId": world.group, "GroupName": "nodes"}] for item in interfaces)
    assert world.count_free_addresses(subnet) == before - 1


def test_launch_template_fields_are_applied_to_the_instance(world: World) -> None:
    world.ec2.create_placement_group(GroupName="close")
    template = world.template(
        IamInstanceProfile={"Name": world.create_instance_profile()},
        MetadataOptions={"HttpTokens": "required", "HttpPutResponseHopLimit": 2},
        Placement={"GroupName": "close"},
        Monitoring={"Enabled": True},
        EbsOptimized=True,
        UserData=base64.b64encode(b"#!/bin/sh").decode(),
        BlockDeviceMappings=[
            {"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 100, "VolumeType": "gp3", "Encrypted": True}},
            {"DeviceName": "/dev/xvdb", "Ebs": {"VolumeSize": 500, "VolumeType": "gp3", "Throughput": 500, "Iops": 6000}},
        ],
        TagSpecifications=[
            {"ResourceType": kind, "Tags": [{"Key": "pool", "Value": kind}]}
            for kind in ("instance", "volume", "network-interface")
        ],
    )
    launched = world.run(LaunchTemplate={"LaunchTemplateId": template}, ImageId=None, InstanceType=None, SecurityGroupIds=None)[0]
    instance = world.describe_instances(launched["InstanceId"])[0]
    assert instance["State"]["Name"] == "running"
    assert instance["IamInstanceProfile"]["Arn"].endswith(":instance-profile/node")
    assert (instance["MetadataOptions"]["HttpTokens"], instance["MetadataOptions"]["HttpPutResponseHopLimit"]) == ("required", 2)
    assert (instance["Placement"]["GroupName"], instance["Placement"]["AvailabilityZone"]) == ("close", "us-west-2a")
    assert (instance["Monitoring"]["State"], instance["EbsOptimized"]) == ("enabled", True)
    assert instance["CpuOptions"] == {"CoreCount": 16, "ThreadsPerCore": 2}
    data = world.ec2.describe_instance_attribute(InstanceId=instance["InstanceId"], Attribute="userData")["UserData"]["Value"]
    assert base64.b64decode(data) == b"#!/bin/sh"
    tags = {tag["Key"]: tag["Value"] for tag in instance["Tags"]}
    assert tags == {"pool": "instance", "aws:ec2launchtemplate:id": template, "aws:ec2launchtemplate:version": "1"}
    volumes = {volume["Attachments"][0]["Device"]: volume for volume in world.ec2.describe_volumes()["Volumes"]}
    assert {device: (volume["Size"], volume["Encrypted"], volume["Throughput"]) for device, volume in volumes.items()} == {
        "/dev/xvda": (100, True, 125),
        "/dev/xvdb": (500, False, 500),
    }
    assert all(volume["Tags"] == [{"Key": "pool", "Value": "volume"}] for volume in volumes.values())
    interface = world.ec2.describe_network_interfaces()["NetworkInterfaces"][0]
    assert (interface["TagSet"], interface["Groups"][0]["GroupId"]) == (
        [{"Key": "pool", "Value": "network-interface"}],
        world.group,
    )


def test_request_parameters_override_the_launch_template(world: World) -> None:
    template = world.template(TagSpecifications=[{"ResourceType": "instance", "Tags": [{"Key": "a", "Value": "template"}]}])
    tags = [{"ResourceType": "instance", "Tags": [{"Key": "b", "Value": "request"}]}]
    launched = world.run(
        LaunchTemplate={"LaunchTemplateId": template},
        ImageId=None,
        InstanceType="g5.12xlarge",
        SecurityGroupIds=None,
        TagSpecifications=tags,
    )[0]
    shown = {tag["Key"]: tag["Value"] for tag in launched["Tags"] if not tag["Key"].startswith("aws:")}
    assert (launched["InstanceType"], shown) == ("g5.12xlarge", {"a": "template", "b": "request"})


def test_the_root_volume_defaults_come_from_the_image(world: World) -> None:
    world.run()
    volume = world.ec2.describe_volumes()["Volumes"][0]
    assert (volume["Size"], volume["VolumeType"], volume["Attachments"][0]["Device"]) == (20, "gp3", "/dev/xvda")


def test_a_spot_instance_has_the_spot_lifecycle(world: World) -> None:
    instance = world.run(InstanceMarketOptions={"MarketType": "spot"})[0]
    assert instance["InstanceLifecycle"] == "spot"
    assert instance["SpotInstanceRequestId"].startswith("sir-")


def test_a_terminated_instance_releases_interfaces_volumes_and_addresses(world: World) -> None:
    world.ec2.create_placement_group(GroupName="close")
    before = world.count_free_addresses(world.subnets[0])
    ids = [item["InstanceId"] for item in world.run(MinCount=2, MaxCount=2, Placement={"GroupName": "close"})]
    assert world.count_free_addresses(world.subnets[0]) == before - 2
    world.ec2.terminate_instances(InstanceIds=ids)
    assert {item["State"]["Name"] for item in world.describe_instances(*ids)} == {"terminated"}
    assert all(item["NetworkInterfaces"] == [] and "SubnetId" not in item for item in world.describe_instances(*ids))
    assert world.count_free_addresses(world.subnets[0]) == before
    assert world.ec2.describe_volumes()["Volumes"] == []
    assert world.ec2.describe_network_interfaces()["NetworkInterfaces"] == []
    world.ec2.delete_placement_group(GroupName="close")
    world.ec2.delete_security_group(GroupId=world.group)


def test_launching_twice_with_the_same_client_token_creates_one_instance(world: World) -> None:
    first, again = world.run(ClientToken="once"), world.run(ClientToken="once")
    assert [item["InstanceId"] for item in first] == [item["InstanceId"] for item in again]
    with pytest.raises(ClientError, match="IdempotentParameterMismatch"):
        world.run(ClientToken="once", InstanceType="g5.12xlarge")


def test_free_subnet_addresses_limit_the_number_of_launched_instances(aws: Client) -> None:
    small = make_world(aws, prefix_length=28)
    assert len(small.run(MinCount=1, MaxCount=50)) == 11  # a /28 has 16 addresses; AWS reserves five


def test_an_instance_stays_pending_for_its_launch_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(durations, "now", lambda: clock[0])
    durations.set_factor(1)
    instance_id = world.run()[0]["InstanceId"]
    assert world.describe_instances(instance_id)[0]["State"]["Name"] == "pending"
    clock[0] += durations.compute_scaled_seconds("ec2-instance")
    assert world.describe_instances(instance_id)[0]["State"]["Name"] == "running"
    world.ec2.terminate_instances(InstanceIds=[instance_id])
    assert world.describe_instances(instance_id)[0]["State"]["Name"] == "shutting-down"
    assert len(world.ec2.describe_network_interfaces()["NetworkInterfaces"]) == 1, (
        "the interface exists until the instance is terminated"
    )
    clock[0] += durations.compute_scaled_seconds("ec2-instance-terminate")
    assert world.describe_instances(instance_id)[0]["State"]["Name"] == "terminated"


def test_an_arm_instance_type_runs_an_arm_image(world: World) -> None:
    assert world.run(InstanceType="g5g.8xlarge", ImageId=find_eks_ami("arm64"))[0]["Architecture"] == "arm64"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("instance-state-name", "running"),
        ("placement-group-name", "close"),
        ("tag:pool", "train"),
        ("tag-key", "pool"),
        ("subnet-id", "{subnet}"),
        ("instance.group-id", "{group}"),
        ("instance-type", "g5.*"),
    ],
)
def test_instances_can_be_found_with_filters(world: World, name: str, value: str) -> None:
    world.ec2.create_placement_group(GroupName="close")
    tags = [{"ResourceType": "instance", "Tags": [{"Key": "pool", "Value": "train"}]}]
    matching = world.run(Placement={"GroupName": "close"}, TagSpecifications=tags)[0]["InstanceId"]
    other = world.run(
        InstanceType="m7i.large", SubnetId=world.subnets[1], SecurityGroupIds=None, ImageId=find_eks_ami(variant="standard")
    )[0]
    world.ec2.stop_instances(InstanceIds=[other["InstanceId"]])
    value = value.format(subnet=world.subnets[0], group=world.group)
    reservations = world.ec2.describe_instances(Filters=[{"Name": name, "Values": [value]}])["Reservations"]
    assert [item["InstanceId"] for reservation in reservations for item in reservation["Instances"]] == [matching]
