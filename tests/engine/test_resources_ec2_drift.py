"""A refresh shows drift, and the next update reverts it."""

from collections.abc import Callable

import pytest

from tests.engine import ec2_world as w
from tests.engine.ec2_inputs import INPUTS
from tests.engine.ec2_world import Thing, World, empty_world, shared_account  # noqa: F401

Drift = Callable[[World, Thing], object]


def revoke_everything(world: World, thing: Thing) -> None:
    group = world.ec2.describe_security_groups(GroupIds=[thing.id])["SecurityGroups"][0]
    world.ec2.revoke_security_group_ingress(GroupId=thing.id, IpPermissions=group["IpPermissions"])


def open_to_internet(world: World, thing: Thing) -> None:
    everything = {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
    world.ec2.authorize_security_group_ingress(GroupId=thing.id, IpPermissions=[everything])


DRIFTS: list[tuple[str, int, Drift, set[str]]] = [
    (
        w.VPC,
        1,
        lambda world, thing: world.ec2.modify_vpc_attribute(VpcId=thing.id, EnableDnsHostnames={"Value": False}),
        {"enableDnsHostnames"},
    ),
    (
        w.SUBNET,
        0,
        lambda world, thing: world.ec2.modify_subnet_attribute(SubnetId=thing.id, MapPublicIpOnLaunch={"Value": False}),
        {"mapPublicIpOnLaunch"},
    ),
    (
        w.INTERNET_GATEWAY,
        0,
        lambda world, thing: world.ec2.detach_internet_gateway(InternetGatewayId=thing.id, VpcId=world.vpc),
        {"vpcId"},
    ),
    (
        w.EIP,
        1,
        lambda world, thing: world.ec2.disassociate_address(AssociationId=thing.state["associationId"]),
        {"networkInterface"},
    ),
    (
        w.ROUTE_TABLE,
        0,
        lambda world, thing: world.ec2.delete_route(RouteTableId=thing.id, DestinationCidrBlock="0.0.0.0/0"),
        {"routes"},
    ),
    (
        w.ROUTE,
        0,
        lambda world, thing: world.ec2.replace_route(
            RouteTableId=world.route_table, DestinationCidrBlock="0.0.0.0/0", NatGatewayId=world.nat_gateway
        ),
        {"gatewayId", "natGatewayId"},
    ),
    (
        w.ROUTE_TABLE_ASSOCIATION,
        0,
        lambda world, thing: world.ec2.replace_route_table_association(
            AssociationId=thing.id, RouteTableId=world.other_route_table
        ),
        {"routeTableId"},
    ),
    (
        w.VPC_ENDPOINT,
        0,
        lambda world, thing: world.ec2.modify_vpc_endpoint(VpcEndpointId=thing.id, RemoveRouteTableIds=[world.route_table]),
        {"routeTableIds"},
    ),
    (w.DEFAULT_SECURITY_GROUP, 0, revoke_everything, {"ingress"}),
    (w.DEFAULT_SECURITY_GROUP, 0, open_to_internet, {"ingress"}),
    (w.SECURITY_GROUP, 0, open_to_internet, {"ingress"}),
    (
        w.LAUNCH_TEMPLATE,
        0,
        lambda world, thing: world.ec2.create_launch_template_version(
            LaunchTemplateId=thing.id, SourceVersion="1", LaunchTemplateData={"KeyName": "theirs"}
        ),
        {"keyName", "description"},
    ),
    (
        w.INGRESS_RULE,
        1,
        lambda world, thing: world.ec2.modify_security_group_rules(
            GroupId=world.group,
            SecurityGroupRules=[
                {
                    "SecurityGroupRuleId": thing.id,
                    "SecurityGroupRule": {"IpProtocol": "tcp", "FromPort": 1, "ToPort": 444, "CidrIpv4": "0.0.0.0/0"},
                }
            ],
        ),
        {"fromPort", "cidrIpv4"},
    ),
    (
        w.AUTOSCALING_TAG,
        0,
        lambda world, thing: world.aws.client("autoscaling").create_or_update_tags(
            Tags=[
                {
                    "ResourceType": "auto-scaling-group",
                    "ResourceId": world.autoscaling_group,
                    "Key": thing.inputs["tag"]["key"],
                    "Value": "theirs",
                    "PropagateAtLaunch": True,
                }
            ]
        ),
        {"tag"},
    ),
    (
        w.AUTOSCALING_SCHEDULE,
        0,
        lambda world, thing: world.aws.client("autoscaling").put_scheduled_update_group_action(
            AutoScalingGroupName=world.autoscaling_group,
            ScheduledActionName=thing.id,
            StartTime="2090-01-03T11:30:00Z",
            MinSize=1,
            DesiredCapacity=5,
        ),
        {"startTime", "desiredCapacity"},
    ),
    *[
        (
            token,
            0,
            lambda world, thing: world.ec2.create_tags(
                Resources=[thing.state.get("placementGroupId", thing.id)], Tags=[{"Key": "Name", "Value": "theirs"}]
            ),
            {"tags"},
        )
        for token in (w.NAT_GATEWAY, w.FLOW_LOG, w.PLACEMENT_GROUP, w.EGRESS_RULE)
    ],
]


@pytest.mark.parametrize(("token", "variant", "drift", "expected"), DRIFTS)
def test_a_refresh_shows_drift_and_the_next_update_reverts_it(
    token: str, variant: int, drift: Drift, expected: set[str], ec2_world: World
) -> None:
    thing = ec2_world.create(token, **INPUTS[token][variant](ec2_world))
    drift(ec2_world, thing)
    assert thing.find_differences() == set(), "before a refresh the state does not show drift"
    assert thing.refresh() is not None
    assert thing.find_differences() == expected
    thing.update(thing.program_inputs())
    thing.refresh()
    assert thing.find_differences() == set()


@pytest.mark.parametrize(
    ("token", "remove"),
    [
        (w.ROUTE, lambda world, _: world.ec2.delete_route_table(RouteTableId=world.route_table)),
        (w.ROUTE_TABLE_ASSOCIATION, lambda world, thing: world.ec2.disassociate_route_table(AssociationId=thing.id)),
        (w.INGRESS_RULE, lambda world, _: world.ec2.delete_security_group(GroupId=world.group)),
        (
            w.AUTOSCALING_SCHEDULE,
            lambda world, _: world.aws.client("autoscaling").delete_auto_scaling_group(
                AutoScalingGroupName=world.autoscaling_group, ForceDelete=True
            ),
        ),
        (
            w.AUTOSCALING_TAG,
            lambda world, _: world.aws.client("autoscaling").delete_auto_scaling_group(
                AutoScalingGroupName=world.autoscaling_group, ForceDelete=True
            ),
        ),
    ],
)
def test_a_resource_deleted_with_its_parent_is_gone_and_can_be_deleted_again(token: str, remove: Drift, ec2_world: World) -> None:
    thing = ec2_world.create(token, **INPUTS[token][0](ec2_world))
    remove(ec2_world, thing)
    state = thing.state
    assert thing.refresh() is None
    thing.state = state
    thing.delete()
