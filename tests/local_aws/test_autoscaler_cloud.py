"""How the autoscaler emulator reads and changes Auto Scaling groups."""

import json
from collections.abc import Callable

import pytest

from infra.components import iam, trust_policies
from infra.components.iam import Account
from infra.naming import AUTOSCALER_TAG
from localcloud.aws import faults, gateway
from localcloud.aws.account import ACCOUNT
from localcloud.kubernetes.autoscaler import flags
from localcloud.kubernetes.autoscaler.cloud import AwsCloud, AwsRefused
from localcloud.kubernetes.autoscaler.groups import Group
from localcloud.kubernetes.autoscaler.loop import Loop
from localcloud.kubernetes.pod_identity.credentials import Pod, assume_pod_role
from testkit.aws_clients import REGION, Client
from testkit.eks_world import World
from tests.local_aws.documents import allow_statement, deny_statement, make_policy
from tests.pure import autoscaler_world

ENABLED = "k8s.io/cluster-autoscaler/enabled"
OWNED = "k8s.io/cluster-autoscaler/demo"
DISCOVERY = flags.parse_discovery_tags(f"asg:tag={ENABLED},{OWNED}")


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


def tag_group(world: World, **tags: str) -> None:
    name = world.auto_scaling_group()["AutoScalingGroupName"]
    world.autoscaling.create_or_update_tags(
        Tags=[
            {"ResourceId": name, "ResourceType": "auto-scaling-group", "Key": key, "Value": value, "PropagateAtLaunch": False}
            for key, value in tags.items()
        ]
    )


def tag_and_discover(world: World) -> AwsCloud:
    tag_group(
        world, **{ENABLED: "true", OWNED: "owned", "k8s.io/cluster-autoscaler/node-template/resources/vpc.amazonaws.com/efa": "4"}
    )
    return AwsCloud([DISCOVERY], REGION)


def get_only_group(cloud: AwsCloud) -> Group:
    (group,) = cloud.groups()
    return group


def test_the_autoscaler_finds_an_auto_scaling_group_by_tags_and_knows_its_instance_type(world: World) -> None:
    group = get_only_group(tag_and_discover(world))
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
    ("text", "is_discovered"),
    [
        (f"asg:tag={ENABLED}", True),
        (f"asg:tag={ENABLED}=true,{OWNED}=owned", True),
        (f"asg:tag={ENABLED}=false", False),
        (f"asg:tag={ENABLED},k8s.io/cluster-autoscaler/other", False),
    ],
)
def test_auto_discovery_requires_all_tags(world: World, text: str, is_discovered: bool) -> None:
    tag_and_discover(world)
    assert bool(AwsCloud([flags.parse_discovery_tags(text)], REGION).groups()) == is_discovered


def test_a_scaled_up_group_lists_its_new_instances(world: World) -> None:
    cloud = tag_and_discover(world)
    cloud.resize(get_only_group(cloud), 2)
    group = get_only_group(cloud)
    assert group.desired == 2 and group.instances == world.list_instance_ids() and len(group.instances) == 2


def test_terminating_an_instance_reduces_the_desired_capacity(world: World) -> None:
    cloud = tag_and_discover(world)
    cloud.resize(get_only_group(cloud), 2)
    first = sorted(get_only_group(cloud).instances)[0]
    cloud.terminate(first)
    group = get_only_group(cloud)
    assert group.desired == 1 and first not in group.instances


def test_aws_rejects_a_desired_size_above_the_maximum(world: World) -> None:
    cloud = tag_and_discover(world)
    with pytest.raises(AwsRefused, match="max"):
        cloud.resize(get_only_group(cloud), 3)


def test_a_failed_launch_appears_in_the_scaling_activities(world: World) -> None:
    cloud = tag_and_discover(world)
    assert cloud.find_launch_failure(get_only_group(cloud), 0) == ""
    faults.add_fault(
        faults.Fault(
            service="ec2", operation="RunInstances", code="InsufficientInstanceCapacity", message="We have none.", times=1
        )
    )
    cloud.resize(get_only_group(cloud), 1)
    group = get_only_group(cloud)
    assert group.desired == 1 and not group.instances
    assert "We have none." in cloud.find_launch_failure(group, 0)
    assert cloud.find_launch_failure(group, 4e9) == "", "the failure is older than this scale-up"


# --- with the credentials of the autoscaler's pod

OWNER = Account(ACCOUNT, REGION, "aws")
SCALE = iam.allow_node_group_scaling(OWNER, "demo", AUTOSCALER_TAG)
EVERYTHING = allow_statement(Principal="*", Action="*", Resource="*")
NO_TYPES = make_policy(EVERYTHING, deny_statement(Principal="*", Action="ec2:DescribeInstanceTypes", Resource="*"))


def grant_role_policy(world: World, document: object) -> None:
    world.client("iam").put_role_policy(RoleName="autoscaler", PolicyName="scale", PolicyDocument=json.dumps(document))


def build_policy_without_types() -> object:
    """Return the autoscaler's policy without ec2:DescribeInstanceTypes."""
    return json.loads(iam.to_json(SCALE).replace('"ec2:DescribeInstanceTypes", ', ""))


def restrict_endpoint(world: World, document: str) -> None:
    (endpoint,) = world.ec2.describe_vpc_endpoints()["VpcEndpoints"]
    world.ec2.modify_vpc_endpoint(VpcEndpointId=endpoint["VpcEndpointId"], PolicyDocument=document)


@pytest.fixture
def start_autoscaler(world: World, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Loop]:
    """Give the autoscaler's pod its role, and create an EC2 endpoint in the cluster's VPC.

    Return a function that starts a new autoscaler while a pod is waiting for a GPU node.
    """
    tag_and_discover(world)
    trust = iam.to_json(trust_policies.build_pod_trust_policy(OWNER, "demo", "kube-system", "cluster-autoscaler"))
    world.eks.create_pod_identity_association(
        clusterName="demo",
        namespace="kube-system",
        serviceAccount="cluster-autoscaler",
        roleArn=world.create_role("autoscaler", trust),
    )
    grant_role_policy(world, SCALE)
    world.ec2.modify_vpc_attribute(VpcId=world.vpc, EnableDnsHostnames={"Value": True})
    world.ec2.create_vpc_endpoint(
        VpcId=world.vpc,
        ServiceName=f"com.amazonaws.{REGION}.ec2",
        VpcEndpointType="Interface",
        SubnetIds=world.subnets[:1],
        PrivateDnsEnabled=True,
    )
    with gateway.LOCK:
        keys = assume_pod_role(ACCOUNT, REGION, "demo", Pod("kube-system", "cluster-autoscaler", "autoscaler-0", "1"))

    def start_loop() -> Loop:
        waiting = autoscaler_world.Cluster(pods_=[autoscaler_world.make_gpu_pod(efa=4, nodeSelector={})])
        with monkeypatch.context() as patch:
            patch.setenv("AWS_ACCESS_KEY_ID", keys["AccessKeyId"])
            patch.setenv("AWS_SECRET_ACCESS_KEY", keys["SecretAccessKey"])
            patch.setenv("AWS_SESSION_TOKEN", keys["Token"])
            return Loop(waiting, AwsCloud([DISCOVERY], REGION), flags.parse([]))

    return start_loop


def read_desired_size(world: World) -> int:
    return int(world.auto_scaling_group()["DesiredCapacity"])


def test_the_autoscaler_role_of_the_program_can_scale_a_pool_up_from_zero(
    world: World, start_autoscaler: Callable[[], Loop]
) -> None:
    start_autoscaler().run_once()
    assert read_desired_size(world) == 1


@pytest.mark.parametrize(
    ("by", "reason"),
    [
        ("role", "because no identity-based policy allows the ec2:DescribeInstanceTypes action"),
        ("endpoint", "with an explicit deny in a VPC endpoint policy"),
    ],
)
def test_without_describe_instance_types_no_pool_grows_and_the_aws_error_is_reported(
    world: World, start_autoscaler: Callable[[], Loop], by: str, reason: str
) -> None:
    if by == "role":
        grant_role_policy(world, build_policy_without_types())
    else:
        restrict_endpoint(world, NO_TYPES)
    loop = start_autoscaler()
    for _ in range(2):
        with pytest.raises(
            AwsRefused, match=r"the size of p4d\.24xlarge is unknown, so no group can be scaled up: .*UnauthorizedOp"
        ) as caught:
            loop.run_once()
        assert reason in str(caught.value)
    assert read_desired_size(world) == 0


def test_a_restored_permission_takes_effect_only_after_an_autoscaler_restart(
    world: World, start_autoscaler: Callable[[], Loop]
) -> None:
    restrict_endpoint(world, NO_TYPES)
    loop = start_autoscaler()
    with pytest.raises(AwsRefused):
        loop.run_once()
    restrict_endpoint(world, make_policy(EVERYTHING))
    with pytest.raises(AwsRefused):
        loop.run_once()
    start_autoscaler().run_once()
    assert read_desired_size(world) == 1
