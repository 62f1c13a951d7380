"""`plan` reads prices, running instances, account limits and permissions from the local AWS."""

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from infra.checks import limits, permissions
from infra.checks.model import Answer
from infra.facts import price_list
from infra.facts.gather import gather_facts
from infra.facts.price_list import Wanted
from infra.plan.placement import choose_nat_zones
from infra.settings.stack import Settings
from localcloud.aws import faults, quotas
from localcloud.aws.account import ADMINISTRATOR_ACCESS, USER_NAME
from localcloud.aws.permissions import organization
from testkit.aws_clients import REGION, Client
from tests.pure.world import load_settings

pytestmark = pytest.mark.usefixtures("account_credentials", "own_cache")
ROOT = Path(__file__).parents[2]


@pytest.fixture
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def settings(*pools: dict[str, Any], **sections: Any) -> Settings:
    target = {"kind": "eks", **sections.pop("target", {})}
    return load_settings({"target": target, "pools": list(pools), "platform": {"install": False}, **sections}, region=REGION)


GPUS = {"name": "train", "instanceType": "p4d.24xlarge", "maxSize": 2}


def list_limit_answers(of: Settings) -> dict[str, Answer]:
    return {answer.check: answer for answer in limits.check_limits(of, gather_facts(of))}


# --- prices -------------------------------------------------------------------------------------------------------------


def test_prices_are_read_from_the_price_list_api_with_filters(aws: Client) -> None:
    price_table = price_list.read(Wanted(REGION, frozenset({"p4d.24xlarge", "m7i.large"}), frozenset()))
    assert {name: price.usd for name, price in price_table.instances.items()} == {
        "m7i.large": Decimal("0.1008000000"),
        "p4d.24xlarge": Decimal("21.9576400000"),
    }
    assert (price_table.item_price("nat-gateway-hour") or pytest.fail("no price")).usd == Decimal("0.045")
    assert price_table.missing is None


def test_a_type_without_an_on_demand_price_does_not_cost_zero(aws: Client) -> None:
    assert price_list.read(Wanted(REGION, frozenset({"p5e.48xlarge"}), frozenset())).instances == {}


def test_spot_prices_are_read_for_each_zone(aws: Client) -> None:
    price_table = price_list.read(Wanted(REGION, frozenset(), frozenset({"p4d.24xlarge"})))
    assert {name for name, _ in price_table.spot} == {"p4d.24xlarge"}
    assert price_table.spot_price("p4d.24xlarge", next(zone for _, zone in price_table.spot)) is not None


def test_prices_are_cached_for_a_day(aws: Client, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    query = Wanted(REGION, frozenset({"m7i.large"}), frozenset())
    first = price_list.read(query)
    monkeypatch.setattr(price_list, "read_rows", lambda *_: pytest.fail("queried again"))
    monkeypatch.setattr(price_list, "ITEMS", {name: row for name, row in price_list.ITEMS.items() if name in first.items})
    assert price_list.read(query).instances == first.instances


def test_a_denied_price_query_is_reported_as_the_reason_for_missing_prices(aws: Client) -> None:
    organization.deny_action("pricing:GetProducts")
    price_table = price_list.read(Wanted(REGION, frozenset({"m7i.large"}), frozenset()))
    assert (price_table.instances, price_table.missing) == ({}, "you may not call pricing:GetProducts")


# --- quotas -------------------------------------------------------------------------------------------------------------


def test_instances_and_reservations_outside_the_stack_count_against_the_quota(aws: Client) -> None:
    aws("ec2").create_capacity_reservation(
        InstanceType="p4d.24xlarge", InstancePlatform="Linux/UNIX", AvailabilityZone=f"{REGION}b", InstanceCount=2
    )
    image = aws("ec2").describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    subnet = aws("ec2").describe_subnets()["Subnets"][0]["SubnetId"]
    aws("ec2").run_instances(ImageId=image, InstanceType="m7i.large", MinCount=1, MaxCount=1, SubnetId=subnet)
    assert gather_facts(settings(GPUS)).in_use == {"L-417A185B": 192, "L-1216C47A": 2}


def test_a_stack_within_unused_quotas_passes_every_check(aws: Client) -> None:
    assert {answer.verdict for answer in list_limit_answers(settings(GPUS)).values()} == {"yes"}


@pytest.mark.parametrize(
    ("code", "check"),
    [
        ("L-F678F1CE", "VPCs per Region"),
        ("L-A4707A72", "Internet gateways per Region"),
        ("L-0263D0A3", "EC2-VPC Elastic IPs"),
        ("L-FE5A380F", "NAT gateways per Availability Zone"),
        ("L-DF5E4CA3", "Network interfaces per Region"),
        ("L-7A658B76", "Storage for General Purpose SSD (gp3) volumes"),
        ("L-1194D53C", "EKS clusters"),
        ("L-BD136A63", "Nodes per managed node group"),
        ("L-FE177D64", "IAM roles"),
    ],
)
def test_a_reached_quota_fails_its_check_and_the_error_names_the_quota_request(code: str, check: str, aws: Client) -> None:
    quotas.set_values({code: 0})
    by_check = list_limit_answers(settings(GPUS))
    assert [name for name, answer in by_check.items() if answer.verdict == "no"] == [check]
    assert f"--quota-code {code}" in by_check[check].sentences[0]


def test_nat_gateways_outside_the_stack_count_only_in_their_zone(aws: Client) -> None:
    quotas.set_values({"L-FE5A380F": 1})
    ec2, of = aws("ec2"), settings(GPUS)
    zone = choose_nat_zones(of, gather_facts(of))[0]
    subnets = {record["AvailabilityZone"]: record["SubnetId"] for record in ec2.describe_subnets()["Subnets"]}
    elsewhere = next(subnet for other, subnet in subnets.items() if other != zone)
    ec2.create_nat_gateway(SubnetId=elsewhere, ConnectivityType="private")
    assert list_limit_answers(of)["NAT gateways per Availability Zone"].verdict == "yes"
    ec2.create_nat_gateway(SubnetId=subnets[zone], ConnectivityType="private")
    (said,) = list_limit_answers(of)["NAT gateways per Availability Zone"].sentences
    assert said.startswith(f"{zone} already has 1, and the quota is 1. ") and "--desired-value 2 " in said


def test_a_stack_in_an_existing_vpc_needs_no_vpc_quota(aws: Client) -> None:
    quotas.set_values({"L-F678F1CE": 0, "L-0263D0A3": 0})
    vpc = aws("ec2").describe_vpcs()["Vpcs"][0]["VpcId"]
    subnets = [subnet["SubnetId"] for subnet in aws("ec2").describe_subnets()["Subnets"]][:2]
    by_check = list_limit_answers(settings(GPUS, network={"vpcId": vpc, "subnetIds": subnets}))
    assert not {"VPCs per Region", "EC2-VPC Elastic IPs", "NAT gateways per Availability Zone"} & by_check.keys()


# --- permissions --------------------------------------------------------------------------------------------------------


def find_permission_answer(of: Settings) -> Answer:
    return permissions.check_permissions(of, gather_facts(of))


def test_an_administrator_has_permission_to_create_the_stack(aws: Client) -> None:
    assert find_permission_answer(settings(GPUS)).verdict == "yes"


def test_the_documented_policies_are_sufficient(aws: Client) -> None:
    iam = aws("iam")
    for name in ("read", "up", "destroy"):
        document = json.dumps(json.loads((ROOT / "docs" / "iam" / f"{name}.json").read_text()), separators=(",", ":"))
        arn = iam.create_policy(PolicyName=name, PolicyDocument=document)["Policy"]["Arn"]
        iam.attach_user_policy(UserName=USER_NAME, PolicyArn=arn)
    iam.detach_user_policy(UserName=USER_NAME, PolicyArn=ADMINISTRATOR_ACCESS)
    answer = find_permission_answer(settings(GPUS, platform={"install": False, "imageRepositories": True}))
    assert (answer.verdict, answer.sentences) == ("yes", ())


DENIED = (
    *("ec2:CreateVpc", "eks:CreateNodegroup", "iam:PassRole", "kms:ScheduleKeyDeletion", "kms:CreateGrant"),
    *("fsx:CreateFileSystem", "fsx:CreateDataRepositoryAssociation", "ec2:DescribeSecurityGroups", "eks:DescribeNodegroup"),
)


@pytest.mark.parametrize("action", DENIED)
def test_a_denied_action_fails_the_check_and_is_named(action: str, aws: Client) -> None:
    organization.deny_action(action)
    aws("s3").create_bucket(Bucket="data", CreateBucketConfiguration={"LocationConstraint": REGION})
    answer = find_permission_answer(settings(GPUS, storage={"fsx": {"dataRepository": {"path": "s3://data"}}}))
    assert answer.verdict == "no"
    assert f"may not call {action}." in answer.sentences[0]


def test_permissions_are_unknown_without_the_policy_simulator(aws: Client) -> None:
    organization.deny_action("iam:SimulatePrincipalPolicy")
    answer = find_permission_answer(settings(GPUS))
    assert answer.verdict == "unknown"
    assert "iam:SimulatePrincipalPolicy" in answer.sentences[0]


# --- network interfaces and service-linked roles ------------------------------------------------------------------------


def test_a_network_interface_quota_below_the_maximum_size_is_a_warning(aws: Client) -> None:
    small = {**GPUS, "desiredSize": 0}
    fixed = 1 + 3 + 3 + 2
    """Network interfaces: one for a NAT gateway, three for the control plane, three for mount targets, two for system
    nodes.
    """
    quotas.set_values({"L-DF5E4CA3": fixed})
    answer = list_limit_answers(settings(small))["Network interfaces per Region"]
    assert (answer.verdict, answer.sentences) == ("yes", ())
    need = f"with every pool at maxSize, the stack needs {fixed + 1 + 2 * 5} more, but the account uses 0 of {fixed}."
    assert answer.warnings[0].startswith(need)
    quotas.set_values({"L-DF5E4CA3": fixed - 1})
    assert list_limit_answers(settings(small))["Network interfaces per Region"].verdict == "no"


def test_network_interfaces_of_endpoints_and_fsx_count(aws: Client) -> None:
    closed = {"network": {"natGateways": "none", "interfaceEndpoints": True}, "storage": {"efs": "none", "fsx": {}}}
    quotas.set_values({"L-DF5E4CA3": 30})
    answer = list_limit_answers(settings(**closed))["Network interfaces per Region"]
    assert answer.verdict == "no" and answer.sentences[0].startswith("the stack needs 43 more, but the account uses 0 of 30.")


def test_service_linked_roles_that_the_caller_cannot_create_are_unknown(aws: Client) -> None:
    organization.deny_action("iam:CreateServiceLinkedRole")
    answer = list_limit_answers(settings(GPUS))["service-linked roles"]
    assert answer.verdict == "unknown"
    assert "you may not call iam:CreateServiceLinkedRole, which AWS may still require" in answer.sentences[0]


def test_missing_service_linked_roles_are_unknown_without_the_policy_simulator(aws: Client) -> None:
    organization.deny_action("iam:SimulatePrincipalPolicy")
    faults.add_fault(faults.Fault("iam", "GetRole", "NoSuchEntity"))
    answer = list_limit_answers(settings())["service-linked roles"]
    assert answer.verdict == "unknown"
    assert answer.sentences[0].startswith("the account lacks AWSServiceRoleFor")
    assert answer.sentences[0].endswith(
        "to create service-linked roles could not be checked: you may not call iam:SimulatePrincipalPolicy"
    )


def test_elastic_ips_of_the_stack_are_not_counted_twice(aws: Client) -> None:
    tags = [{"Key": "gpumpi:stack", "Value": "test"}]
    aws("ec2").allocate_address(Domain="vpc", TagSpecifications=[{"ResourceType": "elastic-ip", "Tags": tags}])
    quotas.set_values({"L-0263D0A3": 1})
    stack_settings = settings(GPUS)
    assert stack_settings.stack == "test" and list_limit_answers(stack_settings)["EC2-VPC Elastic IPs"].verdict == "yes"
    each = list_limit_answers(settings(GPUS, network={"natGateways": "perZone"}))["EC2-VPC Elastic IPs"]
    assert each.sentences[0].startswith("the stack needs 2 more, but the account uses 1 of 1.")
