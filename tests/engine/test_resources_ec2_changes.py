"""Changes to EC2 resources: in place where AWS supports it, otherwise by replacement."""

from collections.abc import Callable
from typing import Any

import pytest

from localcloud.aws import faults
from localcloud.engine.aws.diff import is_same
from localcloud.engine.aws.lifecycle import InitializationFailed, OperationFailed
from localcloud.engine.aws.resource import RESOURCES, Args
from localcloud.engine.aws.resources.ec2_launch_template_data import DATA
from tests.engine import ec2_world as w
from tests.engine.ec2_inputs import INPUTS, POLICY, USER_DATA, build_security_group_inputs
from tests.engine.ec2_world import World, empty_world, shared_account  # noqa: F401

Changes = Callable[[World], Args]
GPU_LABEL = "k8s.io/cluster-autoscaler/node-template/label/gpu"
LATER_HOOK = {"name": "leave", "lifecycleTransition": "autoscaling:EC2_INSTANCE_TERMINATING"}


def make_changes(**changes: Any) -> Changes:
    return lambda _: changes


IN_PLACE: list[tuple[str, int, Changes]] = [
    (w.VPC, 0, make_changes(enableDnsSupport=True, enableDnsHostnames=True)),
    (w.VPC, 1, make_changes(enableDnsHostnames=False, enableNetworkAddressUsageMetrics=True)),
    (w.SUBNET, 0, make_changes(mapPublicIpOnLaunch=None, enableResourceNameDnsARecordOnLaunch=False)),
    (w.SUBNET, 1, make_changes(mapPublicIpOnLaunch=True)),
    (w.INTERNET_GATEWAY, 0, lambda world: {"vpcId": world.other_vpc}),
    (w.INTERNET_GATEWAY, 1, lambda world: {"vpcId": world.vpc}),
    (w.EIP, 0, lambda world: {"instance": world.instance}),
    (w.EIP, 0, lambda world: {"networkInterface": world.interface, "associateWithPrivateIp": "10.0.0.4"}),
    (
        w.ROUTE_TABLE,
        0,
        lambda world: {
            "routes": [
                {"cidrBlock": "0.0.0.0/0", "natGatewayId": world.nat_gateway},
                {"cidrBlock": "10.55.0.0/16", "gatewayId": world.internet_gateway},
            ]
        },
    ),
    (w.ROUTE_TABLE, 0, make_changes(routes=[])),
    (w.ROUTE, 0, lambda world: {"gatewayId": None, "natGatewayId": world.nat_gateway}),
    (w.ROUTE, 0, lambda world: {"gatewayId": None, "networkInterfaceId": world.interface}),
    (w.ROUTE, 0, lambda world: {"gatewayId": None, "transitGatewayId": world.transit_gateway}),
    (w.ROUTE, 0, lambda world: {"gatewayId": None, "vpcPeeringConnectionId": world.peering}),
    (w.ROUTE, 1, lambda world: {"natGatewayId": None, "gatewayId": world.internet_gateway}),
    (w.ROUTE, 2, lambda world: {"egressOnlyGatewayId": None, "gatewayId": world.internet_gateway}),
    (w.ROUTE_TABLE_ASSOCIATION, 0, lambda world: {"routeTableId": world.other_route_table}),
    (w.VPC_ENDPOINT, 0, lambda world: {"routeTableIds": [world.other_route_table]}),
    (w.VPC_ENDPOINT, 0, make_changes(policy=POLICY.replace("Get", "Put"))),
    (w.VPC_ENDPOINT, 1, lambda world: {"subnetIds": [world.subnet], "securityGroupIds": [world.other_security_group]}),
    (w.VPC_ENDPOINT, 1, make_changes(privateDnsEnabled=False)),
    (w.DEFAULT_SECURITY_GROUP, 0, make_changes(ingress=[])),
    (w.DEFAULT_SECURITY_GROUP, 1, build_security_group_inputs),
    (
        w.SECURITY_GROUP,
        0,
        lambda world: {
            "ingress": build_security_group_inputs(world)["ingress"][:1],
            "egress": build_security_group_inputs(world)["egress"][:1],
        },
    ),
    (w.SECURITY_GROUP, 1, build_security_group_inputs),
    (w.SECURITY_GROUP, 1, make_changes(revokeRulesOnDelete=True)),
    (w.LAUNCH_TEMPLATE, 0, make_changes(description="second", imageId="ami-00000000000000001")),
    (w.INGRESS_RULE, 0, lambda world: {"referencedSecurityGroupId": world.other_security_group, "description": None}),
    (w.INGRESS_RULE, 2, make_changes(cidrIpv6="2001:db8:1::/48", description=None)),
    (w.INGRESS_RULE, 3, lambda world: {"prefixListId": world.other_prefix_list}),
    (w.INGRESS_RULE, 1, make_changes(fromPort=80, toPort=81, ipProtocol="udp", cidrIpv4="10.2.0.0/16", description="web")),
    (w.EGRESS_RULE, 0, make_changes(description="out")),
    (w.AUTOSCALING_SCHEDULE, 0, make_changes(startTime="2090-01-02T11:30:00Z", minSize=0, maxSize=4, desiredCapacity=-1)),
    (w.AUTOSCALING_TAG, 0, make_changes(tag={"key": GPU_LABEL, "value": "h100", "propagateAtLaunch": False})),
    (w.AUTOSCALING_GROUP, 0, make_changes(minSize=0, maxSize=5, desiredCapacity=3)),
    (w.AUTOSCALING_GROUP, 0, make_changes(defaultCooldown=30, healthCheckGracePeriod=None, healthCheckType="EC2")),
    (w.AUTOSCALING_GROUP, 0, make_changes(capacityRebalance=None, terminationPolicies=["OldestInstance"])),
    (w.AUTOSCALING_GROUP, 0, lambda world: {"vpcZoneIdentifiers": [world.other_subnet]}),
    (w.AUTOSCALING_GROUP, 0, make_changes(tags=[{"key": "Name", "value": "renamed", "propagateAtLaunch": True}])),
    (w.AUTOSCALING_GROUP, 0, make_changes(forceDelete=False)),
    (w.AUTOSCALING_GROUP, 1, lambda world: {"launchTemplate": {"id": world.launch_template, "version": "1"}}),
    (w.INSTANCE, 0, make_changes(monitoring=False)),
    (w.INSTANCE, 1, make_changes(monitoring=True)),
    (w.INSTANCE, 0, make_changes(userData="#!/bin/sh\nfalse\n")),
    (w.INSTANCE, 0, make_changes(userData=None)),
    (w.INSTANCE, 1, make_changes(userDataReplaceOnChange=False)),
    (w.INSTANCE, 2, make_changes(userData="#!/bin/sh\n")),
    (w.INSTANCE, 2, make_changes(userDataBase64=USER_DATA)),
]
TAGGED = [token for token in INPUTS if "tags" in RESOURCES[token].props and token != w.AUTOSCALING_GROUP]
"""Types whose tags are a map. Auto Scaling groups are excluded, because their tags are a list of objects."""
REPLACED: list[tuple[str, int, Changes, set[str]]] = [
    (w.VPC, 0, make_changes(cidrBlock="10.2.0.0/16"), {"cidrBlock"}),
    (w.VPC, 1, make_changes(instanceTenancy="dedicated"), {"instanceTenancy"}),
    (w.SUBNET, 0, make_changes(availabilityZone="us-west-2a"), {"availabilityZone"}),
    (w.SUBNET, 0, make_changes(cidrBlock="10.0.8.0/24", vpcId="vpc-1"), {"cidrBlock", "vpcId"}),
    (w.SUBNET, 1, make_changes(availabilityZoneId="usw2-az1"), {"availabilityZoneId"}),
    (w.NAT_GATEWAY, 0, make_changes(allocationId="eipalloc-1", subnetId="subnet-1"), {"allocationId", "subnetId"}),
    (w.NAT_GATEWAY, 1, make_changes(connectivityType=None, privateIp="10.0.0.5"), {"connectivityType", "privateIp"}),
    (w.ROUTE_TABLE, 0, make_changes(vpcId="vpc-1"), {"vpcId"}),
    (w.ROUTE, 0, make_changes(routeTableId="rtb-1"), {"routeTableId"}),
    (w.ROUTE, 0, make_changes(destinationCidrBlock="10.77.0.0/16"), {"destinationCidrBlock"}),
    (
        w.ROUTE,
        0,
        make_changes(destinationCidrBlock=None, destinationIpv6CidrBlock="::/0"),
        {"destinationCidrBlock", "destinationIpv6CidrBlock"},
    ),
    (w.ROUTE_TABLE_ASSOCIATION, 0, make_changes(subnetId="subnet-1"), {"subnetId"}),
    (w.VPC_ENDPOINT, 0, make_changes(serviceName="com.amazonaws.us-west-2.dynamodb", vpcId="vpc-1"), {"serviceName", "vpcId"}),
    (w.VPC_ENDPOINT, 1, make_changes(vpcEndpointType=None), {"vpcEndpointType"}),
    (w.FLOW_LOG, 0, make_changes(maxAggregationInterval=None, trafficType="REJECT"), {"maxAggregationInterval", "trafficType"}),
    (w.FLOW_LOG, 0, make_changes(vpcId=None, subnetId="subnet-1"), {"vpcId", "subnetId"}),
    (w.FLOW_LOG, 1, make_changes(logFormat="${version}", logDestination="arn:aws:s3:::other"), {"logFormat", "logDestination"}),
    (w.DEFAULT_SECURITY_GROUP, 0, make_changes(vpcId="vpc-1"), {"vpcId"}),
    (w.SECURITY_GROUP, 0, make_changes(name="other", description=None, vpcId="vpc-1"), {"name", "description", "vpcId"}),
    (w.SECURITY_GROUP, 1, make_changes(namePrefix="other-"), {"namePrefix"}),
    (w.PLACEMENT_GROUP, 0, make_changes(name="other"), {"name"}),
    (w.PLACEMENT_GROUP, 0, make_changes(strategy="spread"), {"strategy"}),
    (w.PLACEMENT_GROUP, 1, make_changes(partitionCount=4), {"partitionCount"}),
    (w.PLACEMENT_GROUP, 2, make_changes(spreadLevel="host"), {"spreadLevel"}),
    (w.LAUNCH_TEMPLATE, 0, make_changes(name="other"), {"name"}),
    (w.LAUNCH_TEMPLATE, 1, make_changes(namePrefix="other-"), {"namePrefix"}),
    (w.INGRESS_RULE, 0, make_changes(securityGroupId="sg-1"), {"securityGroupId"}),
    (w.AUTOSCALING_SCHEDULE, 0, make_changes(autoscalingGroupName="other"), {"autoscalingGroupName"}),
    (w.AUTOSCALING_SCHEDULE, 0, make_changes(scheduledActionName="block-ends"), {"scheduledActionName"}),
    (w.AUTOSCALING_TAG, 0, make_changes(autoscalingGroupName="other"), {"autoscalingGroupName"}),
    (w.AUTOSCALING_TAG, 0, make_changes(tag={"key": "other", "value": "a100", "propagateAtLaunch": True}), {"tag"}),
    (w.INSTANCE, 0, make_changes(launchTemplate={"id": "lt-1", "version": "1"}), {"launchTemplate"}),
    (w.INSTANCE, 0, lambda world: {"launchTemplate": {"id": world.launch_template, "version": "2"}}, {"launchTemplate"}),
    (w.INSTANCE, 1, make_changes(userDataBase64="IyEvYmluL3NoCg=="), {"userDataBase64"}),
    (w.AUTOSCALING_GROUP, 0, make_changes(initialLifecycleHooks=[LATER_HOOK]), {"initialLifecycleHooks"}),
    (w.AUTOSCALING_GROUP, 0, make_changes(name="others"), {"name"}),
    (w.AUTOSCALING_GROUP, 1, make_changes(namePrefix="other-"), {"namePrefix"}),
]


def test_every_property_change_is_tested_as_an_update_or_a_replacement() -> None:
    tried = {(token, name) for token, _, changes in IN_PLACE for name in list_changed_names(changes)}
    tried |= {(w.LAUNCH_TEMPLATE, "updateDefaultVersion")}
    tried |= {(token, name) for token, _, _, expected in REPLACED for name in expected}
    tried |= {(token, "tags") for token in TAGGED} | {(w.LAUNCH_TEMPLATE, name) for name in (*DATA, "defaultVersion")}
    tried |= {(w.EGRESS_RULE, name) for token, name in tried if token == w.INGRESS_RULE}
    tried |= {(w.EIP, "domain"), (w.FLOW_LOG, "eniId"), (w.FLOW_LOG, "logDestinationType"), (w.FLOW_LOG, "iamRoleArn")}
    tried |= {(w.ROUTE, "destinationPrefixListId"), (w.AUTOSCALING_GROUP, "waitForCapacityTimeout")}
    declared = {(token, name) for token in INPUTS for name in RESOURCES[token].props}
    assert declared - tried == set()


def list_changed_names(changes: Changes) -> set[str]:
    class Anything:
        def __getattr__(self, name: str) -> str:
            return name

    return set(changes(Anything()))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("token", "variant", "changes"),
    [*IN_PLACE, (w.LAUNCH_TEMPLATE, 1, make_changes(updateDefaultVersion=None))],
)
def test_changed_properties_are_updated_in_place(token: str, variant: int, changes: Changes, ec2_world: World) -> None:
    thing = ec2_world.create(token, **INPUTS[token][variant](ec2_world))
    changed, id = changes(ec2_world), thing.id
    new = thing.merge_changes(**changed)
    assert (thing.find_differences(new), thing.find_replacements(new)) == (set(changed), set())
    thing.update(new)
    assert thing.id == id
    for name, value in changed.items():
        prop = thing.resource.props[name]
        expected = prop.default if value is None else value
        assert expected is None or is_same(prop, thing.state.get(name), expected), (name, thing.state.get(name))
    thing.refresh()
    assert thing.find_differences() == set()


@pytest.mark.parametrize("token", TAGGED)
def test_tags_are_updated_in_place(token: str, ec2_world: World) -> None:
    thing = ec2_world.create(token, **INPUTS[token][0](ec2_world))
    tagged = thing.state.get("placementGroupId", thing.id)
    ec2_world.ec2.create_tags(Resources=[tagged], Tags=[{"Key": "theirs", "Value": "1"}])
    new = thing.merge_changes(tags={"Name": "renamed", "added": "yes"})
    assert thing.find_differences(new) == {"tags"}
    thing.update(new)
    assert thing.state["tagsAll"] == {"Name": "renamed", "added": "yes", "theirs": "1"}
    thing.update(thing.merge_changes(tags=None))
    assert thing.state["tagsAll"] == {}


@pytest.mark.parametrize(("token", "variant", "changes", "expected"), REPLACED)
def test_changed_properties_require_a_replacement(
    token: str, variant: int, changes: Changes, expected: set[str], ec2_world: World
) -> None:
    thing = ec2_world.create(token, **INPUTS[token][variant](ec2_world))
    assert thing.find_replacements(thing.merge_changes(**changes(ec2_world))) == expected


@pytest.mark.parametrize("name", DATA)
def test_removing_a_field_of_a_launch_template_creates_a_new_version(name: str, ec2_world: World) -> None:
    thing = ec2_world.create(w.LAUNCH_TEMPLATE, **INPUTS[w.LAUNCH_TEMPLATE][0](ec2_world))
    new = thing.merge_changes(**{name: None})
    assert thing.find_differences(new) == {name}
    thing.update(new)
    assert name not in thing.state
    assert (thing.state["latestVersion"], thing.state["defaultVersion"]) == (2, 1)
    assert thing.resource.find_recomputed_outputs(frozenset({name})) == {"latestVersion", "defaultVersion"}


def test_a_launch_template_updates_its_default_version_if_requested(ec2_world: World) -> None:
    thing = ec2_world.create(w.LAUNCH_TEMPLATE, imageId="ami-00000000000000001", updateDefaultVersion=True)
    thing.update(thing.merge_changes(imageId="ami-00000000000000002"))
    assert (thing.state["latestVersion"], thing.state["defaultVersion"]) == (2, 2)
    thing.update(thing.merge_changes(updateDefaultVersion=None, defaultVersion=1))
    assert (thing.state["latestVersion"], thing.state["defaultVersion"]) == (2, 1)
    assert thing.resource.find_recomputed_outputs(frozenset({"tags", "defaultVersion"})) == set()


@pytest.mark.parametrize(
    ("token", "variant", "changes", "expected"),
    [
        (w.INGRESS_RULE, 1, lambda world: {"cidrIpv4": None, "referencedSecurityGroupId": world.group}, True),
        (w.INGRESS_RULE, 1, make_changes(cidrIpv4="10.3.0.0/16"), False),
        (w.VPC_ENDPOINT, 0, make_changes(privateDnsEnabled=True), True),
        (w.VPC_ENDPOINT, 1, make_changes(privateDnsEnabled=False), False),
    ],
)
def test_some_changes_require_replacement_depending_on_the_old_value(
    token: str, variant: int, changes: Changes, expected: bool, ec2_world: World
) -> None:
    thing = ec2_world.create(token, **INPUTS[token][variant](ec2_world))
    new = changes(ec2_world)
    replaced = thing.resource.find_replacement_triggers(thing.state, thing.merge_changes(**new), frozenset(new))  # type: ignore[attr-defined]
    assert replaced == (set(new) if expected else set())


def create_templated_instance(world: World, **data: Any) -> w.Thing:
    template = world.create(w.LAUNCH_TEMPLATE, imageId=world.image, instanceType="t3.large", **data)
    return world.create(w.INSTANCE, launchTemplate={"id": template.id, "version": "1"})


def test_user_data_from_the_launch_template_counts_as_a_change(ec2_world: World) -> None:
    """https://github.com/pulumi/pulumi-aws/issues/3449"""
    thing = create_templated_instance(ec2_world, userData=USER_DATA)
    assert thing.state["userData"] == "#!/bin/sh\ntrue\n"
    assert thing.find_differences() == {"userData"}
    thing.refresh()
    assert thing.find_differences() == {"userData"}


def test_removing_the_user_data_stops_and_starts_the_instance(ec2_world: World) -> None:
    thing = create_templated_instance(ec2_world, userData=USER_DATA)
    faults.add_fault(faults.Fault("ec2", "StartInstances", code="IncorrectInstanceState"))
    with pytest.raises(InitializationFailed, match="StartInstances"):
        thing.update(thing.program_inputs())
    [reservation] = ec2_world.ec2.describe_instances(InstanceIds=[thing.id])["Reservations"]
    assert reservation["Instances"][0]["State"]["Name"] == "stopped"
    described = ec2_world.ec2.describe_instance_attribute(InstanceId=thing.id, Attribute="userData")
    assert described["UserData"] == {}


@pytest.mark.parametrize(("set_on_instance", "expected"), [({}, False), ({"monitoring": True}, True)])
def test_monitoring_in_the_launch_template_does_not_affect_the_instance(
    set_on_instance: dict[str, bool], expected: bool, ec2_world: World
) -> None:
    thing = create_templated_instance(ec2_world, monitoring={"enabled": True})
    instance = ec2_world.create(w.INSTANCE, **thing.program_inputs(), **set_on_instance)
    assert instance.state["monitoring"] is expected


def test_no_instance_starts_before_the_auto_scaling_group_has_its_hooks(ec2_world: World) -> None:
    """The provider creates the group with size 0, adds the hooks, and then sets the size."""
    faults.add_fault(faults.Fault("autoscaling", "PutLifecycleHook", code="AccessDenied"))
    with pytest.raises(InitializationFailed, match="AccessDenied"):
        ec2_world.create(w.AUTOSCALING_GROUP, **INPUTS[w.AUTOSCALING_GROUP][0](ec2_world))
    group = ec2_world.aws.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"][0]
    assert (group["MinSize"], group["DesiredCapacity"], group["MaxSize"], group["Instances"]) == (0, 0, 0, [])


def test_the_unsupported_wait_for_capacity_timeout_is_refused(ec2_world: World) -> None:
    inputs = INPUTS[w.AUTOSCALING_GROUP][1](ec2_world)
    with pytest.raises(OperationFailed, match="waitForCapacityTimeout"):
        ec2_world.create(w.AUTOSCALING_GROUP, **{**inputs, "waitForCapacityTimeout": "5m"})
    thing = ec2_world.create(w.AUTOSCALING_GROUP, **inputs)
    with pytest.raises(InitializationFailed, match="waitForCapacityTimeout"):
        thing.update(thing.merge_changes(waitForCapacityTimeout=None))


def test_a_group_with_instances_is_not_deleted_without_force_delete(ec2_world: World) -> None:
    inputs = INPUTS[w.AUTOSCALING_GROUP][1](ec2_world)
    thing = ec2_world.create(w.AUTOSCALING_GROUP, **{**inputs, "forceDelete": False})
    with pytest.raises(OperationFailed, match="forceDelete"):
        thing.delete()
    assert thing.refresh() is not None
