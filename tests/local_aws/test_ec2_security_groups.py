"""Security group rules: changes in place, and rejected rules."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from testkit.aws_clients import Client
from tests.local_aws.ec2_world import World, make_world


@pytest.fixture
def world(aws: Client) -> World:
    return make_world(aws)


def list_rules(world: World) -> dict[str, dict[str, Any]]:
    """Return the group's ingress rules, keyed by id."""
    group_rules = world.ec2.describe_security_group_rules(Filters=[{"Name": "group-id", "Values": [world.group]}])[
        "SecurityGroupRules"
    ]
    return {item["SecurityGroupRuleId"]: item for item in group_rules if not item["IsEgress"]}


def add_rule(world: World, **source: Any) -> str:
    """Add an ingress rule for port 22; return its id."""
    permission = {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, **source}
    answer = world.ec2.authorize_security_group_ingress(GroupId=world.group, IpPermissions=[permission])
    return str(answer["SecurityGroupRules"][0]["SecurityGroupRuleId"])


def change_rule(world: World, rule: str, **fields: Any) -> dict[str, Any]:
    full = {"IpProtocol": "tcp", "FromPort": 80, "ToPort": 81, **fields}
    world.ec2.modify_security_group_rules(
        GroupId=world.group, SecurityGroupRules=[{"SecurityGroupRuleId": rule, "SecurityGroupRule": full}]
    )
    return list_rules(world)[rule]


@pytest.mark.parametrize(
    ("source", "new_source"),
    [
        ({"IpRanges": [{"CidrIp": "10.0.0.0/8", "Description": "old"}]}, {"CidrIpv4": "10.9.0.0/16"}),
        ({"Ipv6Ranges": [{"CidrIpv6": "2001:db8::/48", "Description": "old"}]}, {"CidrIpv6": "2001:db8:1::/48"}),
    ],
)
def test_modifying_a_cidr_rule_replaces_all_its_fields(world: World, source: dict[str, Any], new_source: dict[str, str]) -> None:
    shown = change_rule(world, add_rule(world, **source), **new_source)
    assert {name: shown[name] for name in new_source} == new_source
    assert (shown["FromPort"], shown["ToPort"], "Description" in shown) == (80, 81, False)


def test_a_rule_can_be_changed_to_reference_another_security_group(world: World) -> None:
    other = world.ec2.create_security_group(GroupName="other", Description="other", VpcId=world.vpc)["GroupId"]
    rule = add_rule(world, UserIdGroupPairs=[{"GroupId": world.group, "Description": "old"}])
    shown = change_rule(world, rule, ReferencedGroupId=other, Description="new")
    assert (shown["ReferencedGroupInfo"]["GroupId"], shown["Description"]) == (other, "new")


def test_a_rule_that_differs_only_in_description_is_a_duplicate(world: World) -> None:
    add_rule(world, UserIdGroupPairs=[{"GroupId": world.group, "Description": "one"}])
    with pytest.raises(ClientError, match=r"InvalidPermission\.Duplicate"):
        add_rule(world, UserIdGroupPairs=[{"GroupId": world.group, "Description": "two"}])


# https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_IpPermission.html
@pytest.mark.parametrize(
    ("permission", "message"),
    [
        ({"IpProtocol": "tcp", "IpRanges": [{"CidrIp": "10.0.0.0/8"}]}, "Must specify both from and to ports"),
        ({"IpProtocol": "tcp", "FromPort": 90, "ToPort": 80, "IpRanges": [{"CidrIp": "10.0.0.0/8"}]}, "the lower port first"),
        ({"IpProtocol": "carrier-pigeon", "IpRanges": [{"CidrIp": "10.0.0.0/8"}]}, "Unknown protocol"),
        ({"IpProtocol": "-1", "IpRanges": [{"CidrIp": "10.0.0.0/8", "Description": "the node's"}]}, "Invalid rule description"),
    ],
)
def test_ec2_rejects_an_invalid_security_group_rule(world: World, permission: dict[str, Any], message: str) -> None:
    before = list_rules(world)
    with pytest.raises(ClientError, match=message) as refused:
        world.ec2.authorize_security_group_ingress(GroupId=world.group, IpPermissions=[permission])
    assert refused.value.response["Error"]["Code"] == "InvalidParameterValue"
    assert list_rules(world) == before


@pytest.mark.parametrize(
    ("new_source", "code"),
    [
        ({"ReferencedGroupId": "{group}"}, "InvalidParameterValue"),
        ({"CidrIpv4": "10.1.0.0/16", "CidrIpv6": "2001:db8::/48"}, "InvalidParameterCombination"),
        ({}, "MissingParameter"),
    ],
)
def test_ec2_rejects_an_invalid_rule_change(world: World, new_source: dict[str, str], code: str) -> None:
    """https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_ModifySecurityGroupRules.html"""
    rule = add_rule(world, IpRanges=[{"CidrIp": "10.0.0.0/8"}])
    before = list_rules(world)
    with pytest.raises(ClientError) as refused:
        change_rule(world, rule, **{name: value.format(group=world.group) for name, value in new_source.items()})
    assert (refused.value.response["Error"]["Code"], list_rules(world)) == (code, before)
