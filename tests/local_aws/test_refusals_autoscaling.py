"""Calls that Auto Scaling rejects."""

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from testkit.aws_clients import NO_RETRIES, REGION
from tests.local_aws.ec2_world import World, make_world
from tests.local_aws.refusals import Refusal

API = "https://docs.aws.amazon.com/autoscaling/ec2/APIReference"
GUIDE = "https://docs.aws.amazon.com/autoscaling/ec2/userguide"
CREATE = f"{API}/API_CreateAutoScalingGroup.html"
TROUBLE = f"{GUIDE}/ts-as-launch-template.html"
MISSING = "lt-00000000000000000"
LAUNCHING = "autoscaling:EC2_INSTANCE_LAUNCHING"


def create_group_params(**changes: Any) -> Any:
    """Return CreateAutoScalingGroup parameters. `changes` override parameters; the value None removes a parameter."""

    def params(world: World) -> dict[str, Any]:
        base: dict[str, Any] = {
            "AutoScalingGroupName": "new",
            "MinSize": 0,
            "MaxSize": 2,
            "VPCZoneIdentifier": ",".join(world.subnets),
            "LaunchTemplate": {"LaunchTemplateName": "nodes"},
        }
        base.update(changes)
        return {name: value for name, value in base.items() if value is not None}

    return params


def build_tag(**changes: Any) -> dict[str, Any]:
    tag_fields = {
        "ResourceId": "nodes",
        "ResourceType": "auto-scaling-group",
        "Key": "a",
        "Value": "b",
        "PropagateAtLaunch": True,
        **changes,
    }
    return {"Tags": [tag_fields]}


GROUPS = [
    Refusal(
        "a name in use", "create_auto_scaling_group", create_group_params(AutoScalingGroupName="nodes"), "AlreadyExists", CREATE
    ),
    Refusal(
        "a name with a colon",
        "create_auto_scaling_group",
        create_group_params(AutoScalingGroupName="a:b"),
        "ValidationError",
        CREATE,
    ),
    Refusal(
        "a minimum above the maximum",
        "create_auto_scaling_group",
        create_group_params(MinSize=3),
        "ValidationError",
        CREATE,
        "Max bound, 2, must be greater than or equal to min bound, 3",
    ),
    Refusal(
        "a desired capacity above the maximum size",
        "create_auto_scaling_group",
        create_group_params(DesiredCapacity=5),
        "ValidationError",
        CREATE,
        "Desired capacity:5 must be between the specified min size:0 and max size:2",
    ),
    Refusal(
        "neither subnets nor zones",
        "create_auto_scaling_group",
        create_group_params(VPCZoneIdentifier=None),
        "ValidationError",
        CREATE,
    ),
    Refusal(
        "a nonexistent subnet",
        "create_auto_scaling_group",
        create_group_params(VPCZoneIdentifier="subnet-00000000000000000"),
        "ValidationError",
        CREATE,
        "does not exist",
    ),
    Refusal(
        "a group without a launch template",
        "create_auto_scaling_group",
        create_group_params(LaunchTemplate=None),
        "ValidationError",
        CREATE,
    ),
    Refusal(
        "a nonexistent launch template",
        "create_auto_scaling_group",
        create_group_params(LaunchTemplate={"LaunchTemplateId": MISSING}),
        "ValidationError",
        TROUBLE,
        "You must use a valid fully-formed launch template. ",
    ),
    Refusal(
        "a nonexistent launch template version",
        "create_auto_scaling_group",
        create_group_params(LaunchTemplate={"LaunchTemplateName": "nodes", "Version": "9"}),
        "ValidationError",
        TROUBLE,
        "Could not find launch template version 9",
    ),
    Refusal(
        "a launch template without an image",
        "create_auto_scaling_group",
        create_group_params(LaunchTemplate={"LaunchTemplateName": "no-image"}),
        "ValidationError",
        TROUBLE,
        "The request must contain the parameter ImageId",
    ),
    Refusal(
        "a launch template with a nonexistent image",
        "create_auto_scaling_group",
        create_group_params(LaunchTemplate={"LaunchTemplateName": "no-such-image"}),
        "ValidationError",
        TROUBLE,
        "does not exist",
    ),
    Refusal(
        "a launch template with EFA on an instance type without EFA",
        "create_auto_scaling_group",
        create_group_params(LaunchTemplate={"LaunchTemplateName": "no-efa"}),
        "ValidationError",
        TROUBLE,
        "do not support Elastic Fabric Adapters",
    ),
    Refusal(
        "a nonexistent placement group",
        "create_auto_scaling_group",
        create_group_params(PlacementGroup="nobody"),
        "ValidationError",
        CREATE,
    ),
    Refusal(
        "an unknown termination policy",
        "create_auto_scaling_group",
        create_group_params(TerminationPolicies=["Random"]),
        "ValidationError",
        f"{GUIDE}/ec2-auto-scaling-termination-policies.html",
    ),
    Refusal(
        "an unknown health check type",
        "create_auto_scaling_group",
        create_group_params(HealthCheckType="ICMP"),
        "ValidationError",
        CREATE,
    ),
    Refusal(
        "a reserved tag",
        "create_auto_scaling_group",
        create_group_params(Tags=[{"Key": "aws:a", "Value": "b"}]),
        "ValidationError",
        f"{GUIDE}/ec2-auto-scaling-tagging.html",
    ),
    Refusal(
        "a lifecycle hook with too short a timeout",
        "create_auto_scaling_group",
        create_group_params(
            LifecycleHookSpecificationList=[{"LifecycleHookName": "h", "LifecycleTransition": LAUNCHING, "HeartbeatTimeout": 5}]
        ),
        "ValidationError",
        f"{API}/API_LifecycleHookSpecification.html",
    ),
    Refusal(
        "a nonexistent group",
        "update_auto_scaling_group",
        {"AutoScalingGroupName": "nobody", "MinSize": 1},
        "ValidationError",
        f"{API}/API_UpdateAutoScalingGroup.html",
        "AutoScalingGroup name not found",
    ),
    Refusal(
        "a minimum above the maximum",
        "update_auto_scaling_group",
        {"AutoScalingGroupName": "nodes", "MinSize": 9},
        "ValidationError",
        f"{API}/API_UpdateAutoScalingGroup.html",
    ),
    Refusal(
        "a launch template with a nonexistent image",
        "update_auto_scaling_group",
        {"AutoScalingGroupName": "nodes", "LaunchTemplate": {"LaunchTemplateName": "no-such-image"}},
        "ValidationError",
        TROUBLE,
    ),
    Refusal(
        "a desired capacity above the maximum size",
        "set_desired_capacity",
        {"AutoScalingGroupName": "nodes", "DesiredCapacity": 9},
        "ValidationError",
        f"{API}/API_SetDesiredCapacity.html",
        "New SetDesiredCapacity value 9 is above max value 2 for the AutoScalingGroup.",
    ),
    Refusal(
        "a group with instances",
        "delete_auto_scaling_group",
        {"AutoScalingGroupName": "nodes"},
        "ResourceInUse",
        f"{API}/API_DeleteAutoScalingGroup.html",
        "You cannot delete an AutoScalingGroup while there are instances",
    ),
    Refusal(
        "a nonexistent group",
        "delete_auto_scaling_group",
        {"AutoScalingGroupName": "nobody"},
        "ValidationError",
        f"{API}/API_DeleteAutoScalingGroup.html",
    ),
    Refusal(
        "a nonexistent instance",
        "terminate_instance_in_auto_scaling_group",
        {"InstanceId": "i-00000000000000000", "ShouldDecrementDesiredCapacity": False},
        "ValidationError",
        f"{API}/API_TerminateInstanceInAutoScalingGroup.html",
    ),
    Refusal(
        "a termination below the minimum size",
        "terminate_instance_in_auto_scaling_group",
        lambda world: {"InstanceId": find_member(world), "ShouldDecrementDesiredCapacity": True},
        "ValidationError",
        f"{API}/API_TerminateInstanceInAutoScalingGroup.html",
        "will violate group's min size constraint",
    ),
    Refusal(
        "a nonexistent group",
        "describe_scaling_activities",
        {"AutoScalingGroupName": "nobody"},
        "ValidationError",
        f"{API}/API_DescribeScalingActivities.html",
    ),
]

REST = [
    Refusal(
        "a nonexistent group",
        "create_or_update_tags",
        build_tag(ResourceId="nobody"),
        "ValidationError",
        f"{API}/API_CreateOrUpdateTags.html",
    ),
    Refusal(
        "another resource type",
        "create_or_update_tags",
        build_tag(ResourceType="instance"),
        "ValidationError",
        f"{API}/API_Tag.html",
    ),
    Refusal(
        "a reserved tag",
        "create_or_update_tags",
        build_tag(Key="aws:a"),
        "ValidationError",
        f"{GUIDE}/ec2-auto-scaling-tagging.html",
    ),
    Refusal(
        "an unknown filter",
        "describe_tags",
        {"Filters": [{"Name": "color", "Values": ["red"]}]},
        "ValidationError",
        f"{API}/API_Filter.html",
    ),
    Refusal(
        "an unknown lifecycle transition",
        "put_lifecycle_hook",
        {"AutoScalingGroupName": "nodes", "LifecycleHookName": "h", "LifecycleTransition": "autoscaling:EC2_INSTANCE_DREAMING"},
        "ValidationError",
        f"{API}/API_PutLifecycleHook.html",
    ),
    Refusal(
        "an unknown default result",
        "put_lifecycle_hook",
        {"AutoScalingGroupName": "nodes", "LifecycleHookName": "h", "LifecycleTransition": LAUNCHING, "DefaultResult": "RETRY"},
        "ValidationError",
        f"{API}/API_PutLifecycleHook.html",
    ),
    Refusal(
        "a nonexistent hook",
        "delete_lifecycle_hook",
        {"AutoScalingGroupName": "nodes", "LifecycleHookName": "nobody"},
        "ValidationError",
        f"{API}/API_DeleteLifecycleHook.html",
    ),
    Refusal(
        "a lifecycle action for an instance that is not waiting",
        "complete_lifecycle_action",
        lambda world: {
            "AutoScalingGroupName": "nodes",
            "LifecycleHookName": "h",
            "InstanceId": find_member(world),
            "LifecycleActionResult": "CONTINUE",
        },
        "ValidationError",
        f"{API}/API_CompleteLifecycleAction.html",
        "No active Lifecycle Action found",
    ),
    Refusal(
        "a refresh that is not in progress",
        "cancel_instance_refresh",
        {"AutoScalingGroupName": "nodes"},
        "ActiveInstanceRefreshNotFound",
        f"{API}/API_CancelInstanceRefresh.html",
    ),
]


def find_member(world: World) -> str:
    """Return the id of the only instance in the group `nodes`."""
    groups = world.client("autoscaling").describe_auto_scaling_groups(AutoScalingGroupNames=["nodes"])["AutoScalingGroups"]
    return str(groups[0]["Instances"][0]["InstanceId"])


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """One environment shared by all rejected calls in a test module; this is safe because a rejected call changes
    nothing.
    """
    with mock_aws():
        refusing = make_world(lambda service, region=REGION: boto3.client(service, region, config=NO_RETRIES))
        refusing.template()
        refusing.template("no-image", ImageId=None)
        refusing.template("no-such-image", ImageId="ami-00000000000000000")
        interfaces = [{"DeviceIndex": 0}, {"DeviceIndex": 1, "InterfaceType": "efa-only"}]
        refusing.template("no-efa", InstanceType="g5.xlarge", SecurityGroupIds=None, NetworkInterfaces=interfaces)
        refusing.client("autoscaling").create_auto_scaling_group(
            AutoScalingGroupName="nodes",
            MinSize=1,
            MaxSize=2,
            VPCZoneIdentifier=",".join(refusing.subnets),
            LaunchTemplate={"LaunchTemplateName": "nodes"},
        )
        yield refusing


@pytest.mark.parametrize("refusal", [*GROUPS, *REST], ids=str)
def test_auto_scaling_rejects_invalid_requests_without_changes(world: World, refusal: Refusal) -> None:
    client = world.client("autoscaling")
    before = client.describe_auto_scaling_groups()["AutoScalingGroups"]
    refusal.check(client, **({"world": world} if callable(refusal.params) else {}))
    assert client.describe_auto_scaling_groups()["AutoScalingGroups"] == before
    assert len(world.ec2.describe_instances()["Reservations"]) == 1
