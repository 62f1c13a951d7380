"""Stopping and starting instances that exist only as API records, connecting to them, and creating AMIs from them."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from localcloud.aws import events
from localcloud.aws.events import WAIT, Progress
from localcloud.aws.images import IMAGES
from testkit.aws_clients import REGION, client
from tests.local_aws.ec2_world import World, find_eks_ami, make_world

SSH = {"DocumentName": "AWS-StartSSHSession", "Parameters": {"portNumber": ["22"]}}


@pytest.fixture
def world(aws: None) -> World:
    return make_world(client)


def read_state(world: World, instance_id: str) -> str:
    return str(world.describe_instances(instance_id)[0]["State"]["Name"])


def expect_refusal(code: str, action: Any, **params: Any) -> str:
    with pytest.raises(ClientError) as caught:
        action(**params)
    assert caught.value.response["Error"]["Code"] == code
    return str(caught.value.response["Error"]["Message"])


def test_a_stopped_instance_keeps_its_address_and_can_be_started(world: World) -> None:
    instance = world.run()[0]
    name, address = instance["InstanceId"], instance["PrivateIpAddress"]
    assert read_state(world, name) == "running"
    change = world.ec2.stop_instances(InstanceIds=[name])["StoppingInstances"][0]
    assert (change["PreviousState"]["Name"], change["CurrentState"]["Name"]) == ("running", "stopping")
    shown = world.describe_instances(name)[0]
    assert (shown["State"]["Name"], shown["PrivateIpAddress"]) == ("stopped", address)
    expect_refusal("IncorrectInstanceState", world.ec2.reboot_instances, InstanceIds=[name])
    world.ec2.start_instances(InstanceIds=[name])
    assert read_state(world, name) == "running"


def test_an_instance_state_change_waits_for_the_host_emulator(world: World) -> None:
    name = world.run()[0]["InstanceId"]
    assert read_state(world, name) == "running"
    answers: list[Progress] = [WAIT]
    end = events.register_realizer(lambda event: None, lambda *_: answers[-1])
    try:
        world.ec2.terminate_instances(InstanceIds=[name])
        assert read_state(world, name) == "shutting-down"
        answers.append(events.DONE)
        assert read_state(world, name) == "terminated"
    finally:
        end()


@pytest.mark.parametrize("how", ["stop", "health"])
def test_an_auto_scaling_group_replaces_a_stopped_or_unhealthy_instance(world: World, how: str) -> None:
    groups = client("autoscaling")
    groups.create_auto_scaling_group(
        AutoScalingGroupName="workers",
        MinSize=0,
        MaxSize=2,
        DesiredCapacity=1,
        VPCZoneIdentifier=world.subnets[0],
        LaunchTemplate={"LaunchTemplateId": world.template(ImageId=find_eks_ami()), "Version": "$Latest"},
    )

    def list_members() -> list[str]:
        shown = groups.describe_auto_scaling_groups(AutoScalingGroupNames=["workers"])["AutoScalingGroups"][0]
        return [item["InstanceId"] for item in shown["Instances"] if item["LifecycleState"] == "InService"]

    (lost,) = list_members() or list_members()
    if how == "stop":
        world.ec2.stop_instances(InstanceIds=[lost])
    else:
        groups.set_instance_health(InstanceId=lost, HealthStatus="Unhealthy")
    list_members()
    (replacement,) = list_members()
    assert replacement != lost and read_state(world, lost) == "terminated"


def test_an_image_created_from_an_instance_belongs_to_the_account_until_deregistered(world: World) -> None:
    name = world.run()[0]["InstanceId"]
    read_state(world, name)
    tags = [{"ResourceType": kind, "Tags": [{"Key": "gpumpi:ami", "Value": "ec2"}]} for kind in ("image", "snapshot")]
    image_id = world.ec2.create_image(InstanceId=name, Name="nodes", TagSpecifications=tags)["ImageId"]
    images = world.ec2.describe_images(Owners=["self"], Filters=[{"Name": "tag:gpumpi:ami", "Values": ["ec2"]}])["Images"]
    assert [(image["ImageId"], image["State"], image["SourceInstanceId"]) for image in images] == [(image_id, "available", name)]
    expect_refusal("InvalidAMIName.Duplicate", world.ec2.create_image, InstanceId=name, Name="nodes")
    assert world.run(ImageId=image_id)[0]["ImageId"] == image_id
    world.ec2.deregister_image(ImageId=image_id)
    assert not world.ec2.describe_images(Owners=["self"])["Images"]


def test_an_image_and_its_copy_keep_the_imds_support_setting(world: World) -> None:
    name = world.run()[0]["InstanceId"]
    read_state(world, name)
    image_id = world.ec2.create_image(InstanceId=name, Name="nodes")["ImageId"]
    (before,) = world.ec2.describe_images(ImageIds=[image_id])["Images"]
    assert "ImdsSupport" not in before
    expect_refusal("InvalidParameterValue", world.ec2.modify_image_attribute, ImageId=image_id, ImdsSupport={"Value": "v1.0"})
    world.ec2.modify_image_attribute(ImageId=image_id, ImdsSupport={"Value": "v2.0"})
    world.ec2.modify_image_attribute(ImageId=image_id, Description={"Value": "nodes of ours"})
    copy = world.ec2.copy_image(SourceRegion=REGION, SourceImageId=image_id, Name="copy")["ImageId"]
    (shown,) = world.ec2.describe_images(ImageIds=[image_id])["Images"]
    assert (shown["ImdsSupport"], shown["Description"]) == ("v2.0", "nodes of ours")
    assert world.ec2.describe_images(ImageIds=[copy])["Images"][0]["ImdsSupport"] == "v2.0"


def test_an_image_of_another_account_cannot_be_modified_or_deregistered(world: World) -> None:
    theirs = IMAGES[0].id(REGION)
    expect_refusal("AuthFailure", world.ec2.deregister_image, ImageId=theirs)
    expect_refusal("AuthFailure", world.ec2.modify_image_attribute, ImageId=theirs, ImdsSupport={"Value": "v2.0"})


def test_an_instance_without_an_emulated_host_has_no_console_output(world: World) -> None:
    name = world.run()[0]["InstanceId"]
    assert not world.ec2.get_console_output(InstanceId=name).get("Output")


def test_a_session_requires_a_role_that_allows_the_ssm_agent(world: World) -> None:
    ssm = client("ssm")
    bare = world.run()[0]["InstanceId"]
    assert "no instance profile" in expect_refusal("TargetNotConnected", ssm.start_session, Target=bare, **SSH)
    with_role = world.run(IamInstanceProfile={"Name": world.create_instance_profile()})[0]["InstanceId"]
    said = expect_refusal("TargetNotConnected", ssm.start_session, Target=with_role, **SSH)
    assert "ssmmessages:CreateControlChannel" in said
    expect_refusal("InvalidDocument", ssm.start_session, Target=with_role, DocumentName="AWS-StartInteractiveCommand")
