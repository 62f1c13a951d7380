"""The emulated provider needs the same permissions as the official one, and docs/iam grants them.

Calls of the official provider: https://github.com/hashicorp/terraform-provider-aws, internal/service
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from moto import mock_aws

from localcloud.aws import account
from localcloud.engine.aws.lifecycle import InitializationFailed, OperationFailed
from localcloud.engine.aws.resource import Aws
from testkit import iam_policies
from tests.engine import ec2_world as w
from tests.engine.ec2_inputs import INPUTS, TAGS
from tests.engine.ec2_world import Thing, World
from tests.local_aws.documents import trust

BUCKET = "aws:s3/bucket:Bucket"
LUSTRE = "aws:fsx/lustreFileSystem:LustreFileSystem"
Use = Callable[[World], Any]


def create(token: str, variant: int = 0, **more: Any) -> Use:
    return lambda world: world.make(token, **{**INPUTS[token][variant](world), **more})


def delete(token: str, variant: int) -> Use:
    def use(world: World) -> None:
        thing: Thing = create(token, variant, tags=TAGS)(world)
        thing.delete()

    return use


def role(world: World) -> Thing:
    document = trust({"Service": "ec2.amazonaws.com"})
    return world.make("aws:iam/role:Role", name="gpumpi-tiny", assumeRolePolicy=document, tags=TAGS)


def make_tagged_bucket(world: World) -> Thing:
    return world.make(BUCKET, bucket="gpumpi-tiny", tags={"gpumpi:stack": "tiny"})


def untag_bucket(world: World) -> None:
    thing = make_tagged_bucket(world)
    thing.update({"bucket": "gpumpi-tiny"})


def file_system(world: World) -> Thing:
    traffic = {"securityGroupId": world.group, "referencedSecurityGroupId": world.group, "ipProtocol": "-1"}
    world.make(w.INGRESS_RULE, **traffic)
    world.make(w.EGRESS_RULE, **traffic)
    return world.make(
        LUSTRE, storageCapacity=1200, deploymentType="SCRATCH_2", subnetIds=world.subnet, securityGroupIds=[world.group]
    )


HOOK = {"name": "join", "lifecycleTransition": "autoscaling:EC2_INSTANCE_LAUNCHING"}
CASES: list[tuple[str, Use]] = [
    (
        "autoscaling:PutLifecycleHook",
        create(w.AUTOSCALING_GROUP, 1, initialLifecycleHooks=[HOOK]),
    ),
    (
        "autoscaling:UpdateAutoScalingGroup",
        create(w.AUTOSCALING_GROUP, 1, initialLifecycleHooks=[HOOK]),
    ),
    ("ec2:DescribeAddressesAttribute", create(w.EIP)),
    ("ec2:DescribeInstanceAttribute", create(w.INSTANCE)),
    ("ec2:DescribeNetworkInterfaces", delete(w.SECURITY_GROUP, 1)),
    ("ec2:DescribeNetworkInterfaces", delete(w.SUBNET, 0)),
    ("ec2:DescribeTags", create(w.INSTANCE)),
    ("ec2:DescribeVolumes", create(w.INSTANCE)),
    ("ec2:GetSecurityGroupsForVpc", file_system),
    ("ec2:MonitorInstances", create(w.INSTANCE)),
    ("iam:ListAttachedRolePolicies", role),
    ("iam:ListRolePolicies", role),
    ("s3:ListTagsForResource", make_tagged_bucket),
    ("s3:TagResource", make_tagged_bucket),
    ("s3:UntagResource", untag_bucket),
]
"""An action, and a use of the emulated provider that needs it."""


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """An empty account, with the credentials of its user, whose permissions a test can restrict."""
    for name, value in account.key().environment.items():
        monkeypatch.setenv(name, value)
    with mock_aws(config={"core": {"mock_credentials": False}}):
        yield World(Aws(w.REGION, endpoint=None, poll_seconds=0.001))


POLICIES = ("read", "up", "destroy")
named = pytest.mark.parametrize(("action", "use"), CASES, ids=[f"{number}-{action}" for number, (action, _) in enumerate(CASES)])


@named
def test_documented_policies_are_enough(action: str, use: Use, world: World) -> None:
    iam_policies.restrict(world.aws.client, map(iam_policies.policy, POLICIES))
    use(world)


@named
def test_provider_fails_without_an_action_of_the_documented_policies(action: str, use: Use, world: World) -> None:
    documents = [iam_policies.remove_action(iam_policies.policy(name), action) for name in POLICIES]
    iam_policies.restrict(world.aws.client, documents)
    with pytest.raises((InitializationFailed, OperationFailed), match=r"not authorized|UnauthorizedOperation|AccessDenied"):
        use(world)
