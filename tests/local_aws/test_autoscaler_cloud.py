"""How the autoscaler emulator reads and changes Auto Scaling groups."""

import pytest

from localcloud.aws import faults
from localcloud.kubernetes.autoscaler import flags
from localcloud.kubernetes.autoscaler.cloud import Aws, Refused
from localcloud.kubernetes.autoscaler.groups import Group
from testkit.aws_clients import REGION, Client
from testkit.eks_world import World

ENABLED = "k8s.io/cluster-autoscaler/enabled"
OWNED = "k8s.io/cluster-autoscaler/demo"
DISCOVERY = flags.discovery(f"asg:tag={ENABLED},{OWNED}")


@pytest.fixture
def world(aws: Client) -> World:
    """An environment with a node group of p4d.24xlarge instances that has maximum size 2 and desired size 0."""
    world = World(aws)
    world.cluster()
    world.node_group(
        instanceTypes=["p4d.24xlarge"],
        amiType="AL2023_x86_64_NVIDIA",
        scalingConfig={"minSize": 0, "maxSize": 2, "desiredSize": 0},
    )
    return world


def tag(world: World, **tags: str) -> None:
    name = world.auto_scaling_group()["AutoScalingGroupName"]
    world.autoscaling.create_or_update_tags(
        Tags=[
            {"ResourceId": name, "ResourceType": "auto-scaling-group", "Key": key, "Value": value, "PropagateAtLaunch": False}
            for key, value in tags.items()
        ]
    )


def discover(world: World) -> Aws:
    tag(
        world, **{ENABLED: "true", OWNED: "owned", "k8s.io/cluster-autoscaler/node-template/resources/vpc.amazonaws.com/efa": "4"}
    )
    return Aws([DISCOVERY], REGION)


def the_group(cloud: Aws) -> Group:
    (group,) = cloud.groups()
    return group


def test_the_autoscaler_finds_a_node_groups_auto_scaling_group_by_tags_and_knows_its_type(world: World) -> None:
    group = the_group(discover(world))
    assert group.name == world.auto_scaling_group()["AutoScalingGroupName"]
    assert (group.minimum, group.maximum, group.desired, group.zones) == (0, 2, 0, (f"{REGION}a",))
    offered = group.template.allocatable
    assert {name: offered[name] // 1000 for name in ("cpu", "nvidia.com/gpu", "vpc.amazonaws.com/efa")} == {
        "cpu": 96,
        "nvidia.com/gpu": 8,
        "vpc.amazonaws.com/efa": 4,
    }
    assert offered["memory"] == 1152 * 1024**3 * 1000
    assert group.template.labels["node.kubernetes.io/instance-type"] == "p4d.24xlarge"
    assert group.template.labels["eks.amazonaws.com/nodegroup"] == "workers"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (f"asg:tag={ENABLED}", True),
        (f"asg:tag={ENABLED}=true,{OWNED}=owned", True),
        (f"asg:tag={ENABLED}=false", False),
        (f"asg:tag={ENABLED},k8s.io/cluster-autoscaler/other", False),
    ],
)
def test_auto_discovery_requires_every_tag(world: World, text: str, found: bool) -> None:
    discover(world)
    assert bool(Aws([flags.discovery(text)], REGION).groups()) == found


def test_a_grown_group_lists_its_new_instances(world: World) -> None:
    cloud = discover(world)
    cloud.resize(the_group(cloud), 2)
    group = the_group(cloud)
    assert group.desired == 2 and group.instances == world.instance_ids() and len(group.instances) == 2


def test_terminating_an_instance_shrinks_the_group(world: World) -> None:
    cloud = discover(world)
    cloud.resize(the_group(cloud), 2)
    first = sorted(the_group(cloud).instances)[0]
    cloud.terminate(first)
    group = the_group(cloud)
    assert group.desired == 1 and first not in group.instances


def test_aws_refuses_a_desired_size_above_the_maximum(world: World) -> None:
    cloud = discover(world)
    with pytest.raises(Refused, match="max"):
        cloud.resize(the_group(cloud), 3)


def test_a_failed_launch_appears_in_the_scaling_activities(world: World) -> None:
    cloud = discover(world)
    assert cloud.failure(the_group(cloud), 0) == ""
    faults.add(
        faults.Fault(
            service="ec2", operation="RunInstances", code="InsufficientInstanceCapacity", message="We have none.", times=1
        )
    )
    cloud.resize(the_group(cloud), 1)
    group = the_group(cloud)
    assert group.desired == 1 and not group.instances
    assert "We have none." in cloud.failure(group, 0)
    assert cloud.failure(group, 4e9) == "", "the failure is older than this scale-up"
