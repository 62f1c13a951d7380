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
from tests.local_aws.documents import make_trust_policy

BUCKET = "aws:s3/bucket:Bucket"
LUSTRE = "aws:fsx/lustreFileSystem:LustreFileSystem"
Use = Callable[[World], Any]


def build_creation(token: str, variant: int = 0, **more: Any) -> Use:
    return lambda world: world.create(token, **{**INPUTS[token][variant](world), **more})


def build_deletion(token: str, variant: int) -> Use:
    def create_and_delete(world: World) -> None:
        thing: Thing = build_creation(token, variant, tags=TAGS)(world)
        thing.delete()

    return create_and_delete


def create_role(world: World) -> Thing:
    document = make_trust_policy({"Service": "ec2.amazonaws.com"})
    return world.create("aws:iam/role:Role", name="gpumpi-tiny", assumeRolePolicy=document, tags=TAGS)


def create_tagged_bucket(world: World) -> Thing:
    return world.create(BUCKET, bucket="gpumpi-tiny", tags={"gpumpi:stack": "tiny"})


def untag_bucket(world: World) -> None:
    thing = create_tagged_bucket(world)
    thing.update({"bucket": "gpumpi-tiny"})


def create_file_system(world: World) -> Thing:
    traffic = {"securityGroupId": world.group, "referencedSecurityGroupId": world.group, "ipProtocol": "-1"}
    world.create(w.INGRESS_RULE, **traffic)
    world.create(w.EGRESS_RULE, **traffic)
    return world.create(
        LUSTRE, storageCapacity=1200, deploymentType="SCRATCH_2", subnetIds=world.subnet, securityGroupIds=[world.group]
    )


HOOK = {"name": "join", "lifecycleTransition": "autoscaling:EC2_INSTANCE_LAUNCHING"}
CASES: list[tuple[str, Use]] = [
    (
        "autoscaling:PutLifecycleHook",
        build_creation(w.AUTOSCALING_GROUP, 1, initialLifecycleHooks=[HOOK]),
    ),
    (
        "autoscaling:UpdateAutoScalingGroup",
        build_creation(w.AUTOSCALING_GROUP, 1, initialLifecycleHooks=[HOOK]),
    ),
    ("ec2:DescribeAddressesAttribute", build_creation(w.EIP)),
    ("ec2:DescribeInstanceAttribute", build_creation(w.INSTANCE)),
    ("ec2:DescribeNetworkInterfaces", build_deletion(w.SECURITY_GROUP, 1)),
    ("ec2:DescribeNetworkInterfaces", build_deletion(w.SUBNET, 0)),
    ("ec2:DescribeTags", build_creation(w.INSTANCE)),
    ("ec2:DescribeVolumes", build_creation(w.INSTANCE)),
    ("ec2:GetSecurityGroupsForVpc", create_file_system),
    ("ec2:MonitorInstances", build_creation(w.INSTANCE)),
    ("iam:ListAttachedRolePolicies", create_role),
    ("iam:ListRolePolicies", create_role),
    ("s3:ListTagsForResource", create_tagged_bucket),
    ("s3:TagResource", create_tagged_bucket),
    ("s3:UntagResource", untag_bucket),
]
"""An IAM action, and a call of the emulated provider that requires it."""


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """An empty account, with the credentials of its user, whose permissions a test can restrict."""
    for name, value in account.default_access_key().environment.items():
        monkeypatch.setenv(name, value)
    with mock_aws(config={"core": {"mock_credentials": False}}):
        yield World(Aws(w.REGION, endpoint=None, poll_seconds=0.001))


POLICIES = ("read", "up", "destroy")
named = pytest.mark.parametrize(("action", "use"), CASES, ids=[f"{number}-{action}" for number, (action, _) in enumerate(CASES)])


@named
def test_documented_policies_are_sufficient(action: str, use: Use, world: World) -> None:
    iam_policies.restrict_user(world.aws.client, map(iam_policies.read_policy, POLICIES))
    use(world)


@named
def test_the_provider_fails_if_any_action_is_removed_from_the_documented_policies(action: str, use: Use, world: World) -> None:
    documents = [iam_policies.remove_action(iam_policies.read_policy(name), action) for name in POLICIES]
    iam_policies.restrict_user(world.aws.client, documents)
    with pytest.raises((InitializationFailed, OperationFailed), match=r"not authorized|UnauthorizedOperation|AccessDenied"):
        use(world)
