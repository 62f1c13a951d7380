"""The handlers run behind Pulumi's mocks, so that unit tests also check AWS's rules."""

import asyncio
import gc
import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import boto3
import pulumi
import pulumi_aws as aws
import pytest
from pulumi.runtime.mocks import MockResourceArgs
from pulumi.runtime.settings import get_root_resource

from localcloud.engine.mocks import MockFailed, MotoMocks

VPC = "aws:ec2/vpc:Vpc"
SUBNET = "aws:ec2/subnet:Subnet"
ROLE = "aws:iam/role:Role"
TRUST = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}],
    }
)


@pytest.fixture
def mocks() -> Iterator[MotoMocks]:
    with MotoMocks("us-west-2") as entered:
        yield entered


def run_program(mocks: MotoMocks, program: Callable[[], Any]) -> Any:
    """Run the program to completion; return its result with all outputs resolved."""
    pulumi.runtime.set_mocks(mocks, project="tiny", stack="test", preview=mocks.preview)
    results: list[Any] = []

    @pulumi.runtime.test  # type: ignore[untyped-decorator]
    def resolve_outputs() -> pulumi.Output[None]:
        return pulumi.Output.from_input(program()).apply(results.append)

    resolve_outputs()
    return results[0] if results else None


def create_network() -> list[pulumi.Output[Any]]:
    vpc = aws.ec2.Vpc("net", cidr_block="10.0.0.0/16", tags={"Name": "net"})
    parts = [aws.ec2.Subnet(f"part{number}", vpc_id=vpc.id, cidr_block=f"10.0.{number}.0/24") for number in range(8)]
    return [vpc.id, vpc.default_security_group_id, *(part.availability_zone for part in parts)]


def test_mocks_create_resources_in_emulated_aws_and_return_their_outputs(mocks: MotoMocks) -> None:
    vpc, group, *zones = run_program(mocks, create_network)
    ec2 = boto3.client("ec2")
    assert ec2.describe_vpcs(VpcIds=[vpc])["Vpcs"][0]["CidrBlock"] == "10.0.0.0/16"
    assert ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"][0]["VpcId"] == vpc
    assert all(zone.startswith("us-west-2") for zone in zones)


def test_mocks_record_every_resource_with_its_inputs(mocks: MotoMocks) -> None:
    vpc, *_ = run_program(mocks, create_network)
    recorded = mocks.list_created(VPC)[0]
    assert (recorded.name, recorded.id, recorded.inputs) == ("net", vpc, {"cidrBlock": "10.0.0.0/16", "tags": {"Name": "net"}})
    assert {resource.name: resource.inputs["vpcId"] for resource in mocks.list_created(SUBNET)} == {
        f"part{n}": vpc for n in range(8)
    }


def test_a_request_refused_by_aws_fails_the_unit_test(mocks: MotoMocks) -> None:
    def program() -> None:
        vpc = aws.ec2.Vpc("net", cidr_block="10.0.0.0/16")
        aws.ec2.Subnet("part", vpc_id=vpc.id, cidr_block="10.1.0.0/24")

    with pytest.raises(
        Exception, match=r"creating EC2 Subnet \(part\): operation error EC2: CreateSubnet, .* InvalidSubnet.Range: "
    ):
        run_program(mocks, program)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (lambda: aws.ec2.Vpc("net", cidr_block="10.0.0.0/16", ipv4_netmask_length=16), 'does not support "ipv4NetmaskLength"'),
        (lambda: aws.sqs.Queue("jobs"), "does not support the resource type aws:sqs/queue:Queue"),
        (lambda: aws.get_region(), "calls the function aws:index/getRegion:getRegion"),
        (lambda: aws.ec2.Vpc.get("net", "vpc-0"), "there is no vpc-0"),
    ],
)
def test_an_input_that_is_not_emulated_fails_the_unit_test(mocks: MotoMocks, program: Callable[[], Any], message: str) -> None:
    with pytest.raises(Exception, match=message):
        run_program(mocks, lambda: [program(), None][1])


def test_mocks_register_components_and_their_children(mocks: MotoMocks) -> None:
    class Box(pulumi.ComponentResource):
        def __init__(self) -> None:
            super().__init__("tiny:infra:Box", "box")
            aws.iam.Role("inside", assume_role_policy=TRUST, opts=pulumi.ResourceOptions(parent=self))

    def program() -> None:
        Box()

    run_program(mocks, program)
    assert (mocks.resources[0].token, mocks.resources[0].id) == ("tiny:infra:Box", None)
    assert len(mocks.list_created(ROLE)) == 1


def test_an_existing_resource_can_be_looked_up(mocks: MotoMocks) -> None:
    vpc = boto3.client("ec2").create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    assert run_program(mocks, lambda: aws.ec2.Vpc.get("mine", vpc).cidr_block) == "10.9.0.0/16"


def test_a_secret_input_becomes_a_secret_output(mocks: MotoMocks) -> None:
    def program() -> Any:
        role = aws.iam.Role("node", assume_role_policy=TRUST, description=pulumi.Output.secret("hidden"))
        return pulumi.Output.from_input(role.description.is_secret())

    assert run_program(mocks, program) is True
    assert mocks.list_created(ROLE)[0].inputs["description"] == "hidden"


def test_a_preview_creates_nothing_and_knows_only_the_inputs() -> None:
    def program() -> None:
        vpc = aws.ec2.Vpc("net", cidr_block="10.0.0.0/16")
        vpc.arn.apply(lambda _: pytest.fail("the preview knew the ARN"))
        aws.ec2.Subnet("part", vpc_id=vpc.id, cidr_block=vpc.cidr_block.apply(lambda block: block.replace("/16", "/24")))

    with MotoMocks(preview=True) as mocks:
        run_program(mocks, program)
        assert mocks.list_created(SUBNET)[0].inputs["cidrBlock"] == "10.0.0.0/24"
        assert len(boto3.client("ec2").describe_vpcs()["Vpcs"]) == 1


def test_generated_names_are_unique_and_the_same_in_every_run() -> None:
    def program() -> list[pulumi.Output[str]]:
        roles = [aws.iam.Role(f"role{number}", assume_role_policy=TRUST) for number in range(3)]
        return [role.name for role in roles]

    def collect_names() -> Any:
        with MotoMocks() as mocks:
            return run_program(mocks, program)

    first = collect_names()
    assert first == collect_names()
    assert len({name[-7:] for name in first}) == 3


def test_mocks_leave_no_resources_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "work")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    before = dict(os.environ)
    with MotoMocks("eu-west-1") as mocks:
        run_program(mocks, create_network)
        assert boto3.client("sts").get_caller_identity()["Arn"].endswith("user/local-engineer")
        assert boto3.client("ec2").meta.region_name == "eu-west-1"
    assert dict(os.environ) == before
    with MotoMocks("eu-west-1"):
        assert len(boto3.client("ec2").describe_vpcs()["Vpcs"]) == 1, "each mock has its own account"


def test_a_program_that_outlives_its_test_cannot_reach_the_account_of_the_next_test() -> None:
    late = MockResourceArgs(ROLE, "role", {"assumeRolePolicy": TRUST}, "", "", True)
    with MotoMocks() as first:
        pass
    with MotoMocks():
        with pytest.raises(MockFailed, match="role was registered after the test had ended"):
            first.new_resource(late)
        assert not [role for role in boto3.client("iam").list_roles()["Roles"] if role["RoleName"].startswith("role")]


def test_a_failed_program_ends_with_its_test() -> None:
    def create_rejected_vpc() -> None:
        description: pulumi.Input[str] = "first"
        for number in range(8):  # a chain of dependencies: AWS rejects the VPC before the program registers most roles
            description = aws.iam.Role(f"role{number}", assume_role_policy=TRUST, description=description).name
        aws.ec2.Vpc("net", cidr_block="10.0.0.0/8")

    with MotoMocks() as first, pytest.raises(Exception, match=r"InvalidVpc\.Range"):
        run_program(first, create_rejected_vpc)
    assert asyncio.all_tasks(asyncio.get_event_loop_policy().get_event_loop()) == set(), "tasks would leak into the next test"


def test_errors_in_futures_of_a_failed_program_are_not_printed(mocks: MotoMocks, caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.get_event_loop_policy().get_event_loop()
    loop.create_future().set_exception(ValueError("raised by the program"))
    gc.collect()  # asyncio reports such an error when the future is deleted
    loop.call_exception_handler({"message": "another error"})
    assert [record.message for record in caplog.records if record.name == "asyncio"] == ["another error"]


def test_a_test_without_a_program_does_not_block_the_next_test() -> None:
    """The idle test never registers its root resource, so a program that used that resource would wait forever."""
    with MotoMocks("us-west-2") as idle:
        pulumi.runtime.set_mocks(idle, project="tiny", stack="test", preview=idle.preview)
    assert get_root_resource() is None
    with MotoMocks("us-west-2") as mocks:
        run_program(mocks, lambda: aws.ec2.Vpc("vpc", cidr_block="10.0.0.0/16").id)
        assert len(mocks.list_created(VPC)) == 1
