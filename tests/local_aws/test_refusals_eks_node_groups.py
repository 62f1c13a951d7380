"""What EKS refuses of new node groups."""

from collections.abc import Iterator

import pytest

from localcloud.aws.account import ACCOUNT
from tests.local_aws.eks_refusing import (
    IN_USE,
    NOT_FOUND,
    PARAMETER,
    Refusing,
    api,
    refusing_world,
)
from tests.local_aws.refusals import Refusal


@pytest.fixture(scope="module")
def world() -> Iterator[Refusing]:
    with refusing_world() as world:
        yield world


REFUSALS = [
    Refusal(
        "a cluster that does not exist",
        "create_nodegroup",
        lambda world: world.group(cluster="none"),
        NOT_FOUND,
        api("CreateNodegroup"),
        "No cluster found",
    ),
    Refusal(
        "a name that exists",
        "create_nodegroup",
        lambda world: world.group(name="workers"),
        IN_USE,
        api("CreateNodegroup"),
        "NodeGroup already exists with name workers",
    ),
    Refusal(
        "a name over 63 characters",
        "create_nodegroup",
        lambda world: world.group(name="a" * 64),
        PARAMETER,
        api("CreateNodegroup"),
        "",
    ),
    Refusal("no subnet", "create_nodegroup", lambda world: world.group(subnets=[]), PARAMETER, api("CreateNodegroup"), "subnet"),
    Refusal(
        "a subnet that does not exist",
        "create_nodegroup",
        lambda world: world.group(subnets=["subnet-0"]),
        PARAMETER,
        api("CreateNodegroup"),
        "subnet-0",
    ),
    Refusal(
        "a subnet of another VPC",
        "create_nodegroup",
        lambda world: world.group(subnets=[world.foreign_subnet]),
        PARAMETER,
        api("CreateNodegroup"),
        "must belong to cluster's vpc",
    ),
    Refusal(
        "a role that is none",
        "create_nodegroup",
        lambda world: world.group(nodeRole="node"),
        PARAMETER,
        api("CreateNodegroup"),
        "Invalid Role Arn",
    ),
    Refusal(
        "a role that does not exist",
        "create_nodegroup",
        lambda world: world.group(nodeRole=f"arn:aws:iam::{ACCOUNT}:role/none"),
        PARAMETER,
        api("CreateNodegroup"),
        "The role with name none cannot be found.",
    ),
    Refusal(
        "a role that instances cannot have",
        "create_nodegroup",
        lambda world: world.group(nodeRole=world.cluster_role),
        PARAMETER,
        api("CreateNodegroup"),
        "Following required service principals [ec2.amazonaws.com] were not found in the trust relationships of nodeRole",
    ),
    Refusal(
        "more at least than desired",
        "create_nodegroup",
        lambda world: world.group(scalingConfig={"minSize": 3, "maxSize": 4, "desiredSize": 2}),
        PARAMETER,
        api("NodegroupScalingConfig"),
        "Minimum capacity 3 can't be greater than desired size 2",
    ),
    Refusal(
        "more desired than at most",
        "create_nodegroup",
        lambda world: world.group(scalingConfig={"minSize": 0, "maxSize": 1, "desiredSize": 2}),
        PARAMETER,
        api("NodegroupScalingConfig"),
        "desired capacity 2 can't be greater than max size 1",
    ),
    Refusal(
        "more at least than at most",
        "create_nodegroup",
        lambda world: world.group(scalingConfig={"minSize": 5, "maxSize": 4, "desiredSize": 5}),
        PARAMETER,
        api("NodegroupScalingConfig"),
        "",
    ),
    Refusal(
        "a type that does not exist",
        "create_nodegroup",
        lambda world: world.group(instanceTypes=["g5.xlarg"]),
        PARAMETER,
        api("CreateNodegroup"),
        "The following supplied instance types do not exist: [g5.xlarg]",
    ),
    Refusal(
        "an image of another architecture",
        "create_nodegroup",
        lambda world: world.group(instanceTypes=["m7g.large"], amiType="AL2023_x86_64_STANDARD"),
        PARAMETER,
        api("CreateNodegroup"),
        "[m7g.large] is not a valid instance type for requested amiType AL2023_x86_64_STANDARD",
    ),
    Refusal(
        "a GPU image for a type without GPUs",
        "create_nodegroup",
        lambda world: world.group(instanceTypes=["m7i.large"], amiType="AL2023_x86_64_NVIDIA"),
        PARAMETER,
        api("CreateNodegroup"),
        "is not a valid instance type",
    ),
    Refusal(
        "Amazon Linux 2 for a version that has none",
        "create_nodegroup",
        lambda world: world.group(amiType="AL2_x86_64"),
        PARAMETER,
        api("CreateNodegroup"),
        "only supported for kubernetes versions 1.32 or earlier",
    ),
    Refusal(
        "an AMI type that does not exist",
        "create_nodegroup",
        lambda world: world.group(amiType="AL3"),
        PARAMETER,
        api("CreateNodegroup"),
        "Invalid AMI type",
    ),
    Refusal(
        "CUSTOM without an image",
        "create_nodegroup",
        lambda world: world.group(amiType="CUSTOM"),
        PARAMETER,
        api("CreateNodegroup"),
        "image id",
    ),
    Refusal(
        "another version than the cluster's",
        "create_nodegroup",
        lambda world: world.group(version="1.33"),
        PARAMETER,
        api("CreateNodegroup"),
        "1.33",
    ),
    Refusal(
        "a release of another version",
        "create_nodegroup",
        lambda world: world.group(releaseVersion="1.33.10-20260714"),
        PARAMETER,
        api("CreateNodegroup"),
        "Requested release version 1.33.10-20260714 is not valid for kubernetes version 1.34.",
    ),
    Refusal(
        "a capacity type that does not exist",
        "create_nodegroup",
        lambda world: world.group(capacityType="FREE"),
        PARAMETER,
        api("CreateNodegroup"),
        "FREE",
    ),
    Refusal(
        "a label of Kubernetes' own",
        "create_nodegroup",
        lambda world: world.group(labels={"node-role.kubernetes.io/worker": "yes"}),
        PARAMETER,
        api("CreateNodegroup"),
        "Label cannot contain reserved prefixes",
    ),
    Refusal(
        "a label of EKS's own",
        "create_nodegroup",
        lambda world: world.group(labels={"eks.amazonaws.com/nodegroup": "mine"}),
        PARAMETER,
        api("CreateNodegroup"),
        "Label cannot contain reserved prefixes",
    ),
    Refusal(
        "a label value that is none",
        "create_nodegroup",
        lambda world: world.group(labels={"a": "not a value"}),
        PARAMETER,
        api("CreateNodegroup"),
        "not a value",
    ),
    Refusal(
        "a label key that is none",
        "create_nodegroup",
        lambda world: world.group(labels={"/": "1"}),
        PARAMETER,
        api("CreateNodegroup"),
        "Label key",
    ),
    Refusal(
        "a taint effect as Kubernetes spells it",
        "create_nodegroup",
        lambda world: world.group(taints=[{"key": "a", "value": "b", "effect": "NoSchedule"}]),
        PARAMETER,
        api("Taint"),
        "Invalid taint effect: NoSchedule",
    ),
    Refusal(
        "a taint without a key",
        "create_nodegroup",
        lambda world: world.group(taints=[{"value": "b", "effect": "NO_SCHEDULE"}]),
        PARAMETER,
        api("Taint"),
        "Taint key",
    ),
    Refusal(
        "the same taint twice",
        "create_nodegroup",
        lambda world: world.group(taints=[{"key": "a", "effect": "NO_SCHEDULE"}] * 2),
        PARAMETER,
        api("Taint"),
        "Duplicate taint",
    ),
    Refusal(
        "a count and a percentage of unavailable nodes",
        "create_nodegroup",
        lambda world: world.group(updateConfig={"maxUnavailable": 1, "maxUnavailablePercentage": 10}),
        PARAMETER,
        api("NodegroupUpdateConfig"),
        "Only one of",
    ),
    Refusal(
        "an update strategy that does not exist",
        "create_nodegroup",
        lambda world: world.group(updateConfig={"updateStrategy": "SURGE"}),
        PARAMETER,
        api("NodegroupUpdateConfig"),
        "SURGE",
    ),
    Refusal(
        "a count and a percentage of repairs",
        "create_nodegroup",
        lambda world: world.group(nodeRepairConfig={"maxParallelNodesRepairedCount": 1, "maxParallelNodesRepairedPercentage": 1}),
        PARAMETER,
        api("NodeRepairConfig"),
        "Only one of",
    ),
    Refusal(
        "a repair override without all its parts",
        "create_nodegroup",
        lambda world: world.group(nodeRepairConfig={"nodeRepairConfigOverrides": [{"repairAction": "Reboot"}]}),
        PARAMETER,
        api("NodeRepairConfigOverrides"),
        "missing: nodeMonitoringCondition",
    ),
    Refusal(
        "a reserved tag",
        "create_nodegroup",
        lambda world: world.group(tags={"aws:x": "y"}),
        PARAMETER,
        api("CreateNodegroup"),
        "aws:",
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_of_new_node_groups_eks_refuses(world: Refusing, refusal: Refusal) -> None:
    refusal.check(world.eks, world=world)
    assert "new" not in world.eks.list_nodegroups(clusterName="demo")["nodegroups"]
