"""Network resources for each network setting."""

import json
from dataclasses import replace
from typing import Any

import pytest

from infra.plan.aws_services import FOR_EKS as SERVICES
from localcloud.aws.policy_evaluation import Request, allows
from tests.program import engine
from tests.program.engine import Deployment, deploy
from tests.pure import world

ZONES = ["us-west-2a", "us-west-2b", "us-west-2c"]


def network(target: dict[str, Any] | None = None, **asked: Any) -> Deployment:
    settings = world.settings(world.pool(), network=asked, target=target or {})
    return deploy(settings, world.facts(settings))


@pytest.fixture(scope="module")
def usual() -> Deployment:
    return network()


@pytest.fixture(scope="module")
def closed() -> Deployment:
    return network({"endpointAccess": {}}, natGateways="none", interfaceEndpoints=True)


@pytest.fixture(scope="module")
def existing() -> Deployment:
    return network(**world.existing_network())


def zones_of(resources: list[engine.Resource]) -> list[str]:
    return sorted(resource.inputs["availabilityZone"] for resource in resources)


def test_every_zone_has_a_private_and_a_public_subnet(usual: Deployment) -> None:
    assert zones_of(usual.created(engine.SUBNET, "private")) == ZONES
    assert zones_of(usual.created(engine.SUBNET, "public")) == ZONES


def test_no_subnet_assigns_public_addresses(usual: Deployment) -> None:
    assert {subnet.inputs["mapPublicIpOnLaunch"] for subnet in usual.created(engine.SUBNET)} == {False}


def test_subnets_have_the_tags_that_eks_looks_for(usual: Deployment) -> None:
    for kind, role in (("private", "kubernetes.io/role/internal-elb"), ("public", "kubernetes.io/role/elb")):
        for subnet in usual.created(engine.SUBNET, kind):
            assert subnet.inputs["tags"]["kubernetes.io/cluster/gpumpi-test"] == "shared"
            assert subnet.inputs["tags"][role] == "1"


def test_vpc_dns_names_resolve_inside_the_vpc(usual: Deployment) -> None:
    vpc = usual.only(engine.VPC).inputs
    assert vpc["enableDnsSupport"] and vpc["enableDnsHostnames"]


def test_the_default_security_group_allows_no_traffic(usual: Deployment) -> None:
    group = usual.only(engine.DEFAULT_SECURITY_GROUP).inputs
    assert "ingress" not in group and "egress" not in group


def test_flow_logs_cover_all_traffic_and_are_encrypted_and_expire(usual: Deployment) -> None:
    assert usual.only(engine.FLOW_LOG).inputs["trafficType"] == "ALL"
    group = usual.only(engine.LOG_GROUP, "flow-logs").inputs
    assert group["name"] == "/gpumpi/test/flow-logs" and group["retentionInDays"] == 90 and group["kmsKeyId"]


@pytest.mark.parametrize(
    ("nat", "gateways"), [(None, ["us-west-2a"]), ("one", ["us-west-2a"]), ("perZone", ZONES)], ids=["default", "one", "perZone"]
)
def test_the_number_of_nat_gateways_is_as_configured(nat: str | None, gateways: list[str]) -> None:
    deployment = network(natGateways=nat) if nat else network()
    assert sorted(gateway.name.split("-nat-")[1] for gateway in deployment.created(engine.NAT_GATEWAY)) == [
        f"{zone}-gateway" for zone in gateways
    ]
    routes = {route.name: route.inputs["natGatewayId"] for route in deployment.created(engine.ROUTE, "private")}
    assert len(routes) == len(ZONES)
    for zone in ZONES:
        through = zone if zone in gateways else gateways[0]
        assert routes[f"gpumpi-test-network-private-{zone}-internet-route"] == f"gpumpi-test-network-nat-{through}-gateway-id"


def test_every_private_subnet_reaches_s3_without_nat(usual: Deployment) -> None:
    endpoint = usual.only(engine.VPC_ENDPOINT, "s3").inputs
    assert endpoint["vpcEndpointType"] == "Gateway" and endpoint["serviceName"] == "com.amazonaws.us-west-2.s3"
    assert len(endpoint["routeTableIds"]) == len(ZONES)


@pytest.mark.parametrize(("nat", "reads_all"), [("one", True), ("none", False)])
def test_s3_endpoint_admits_other_accounts_buckets_only_if_nat_would(nat: str, reads_all: bool) -> None:
    deployment = network(natGateways=nat, **({"interfaceEndpoints": True} if nat == "none" else {}))
    policy = json.loads(deployment.only(engine.VPC_ENDPOINT, "s3-endpoint").inputs["policy"])
    stranger = {"aws:PrincipalAccount": "999999999999"}
    assert allows(Request("s3:GetObject", "arn:aws:s3:::data-set/x", stranger), policy) is reads_all
    assert not allows(Request("s3:PutObject", "arn:aws:s3:::data-set/x", stranger), policy)
    assert allows(Request("s3:PutObject", "arn:aws:s3:::any/x", {"aws:PrincipalAccount": "123456789012"}), policy)


@pytest.mark.parametrize("zones", [2, 3, 4, ["us-west-2b", "us-west-2d"]], ids=str)
def test_a_zone_s_addresses_do_not_depend_on_the_other_zones(zones: Any) -> None:
    blocks = {
        "us-west-2a": "10.0.0.0/20",
        "us-west-2b": "10.0.16.0/20",
        "us-west-2c": "10.0.32.0/20",
        "us-west-2d": "10.0.48.0/20",
    }
    for subnet in network(zones=zones).created(engine.SUBNET, "private"):
        assert subnet.inputs["cidrBlock"] == blocks[subnet.inputs["availabilityZone"]]


# --- private cluster


def test_a_private_cluster_has_no_route_to_the_internet(closed: Deployment) -> None:
    for token in (engine.INTERNET_GATEWAY, engine.NAT_GATEWAY, engine.ROUTE, "aws:ec2/eip:Eip"):
        assert closed.created(token) == []
    assert closed.created(engine.SUBNET, "public") == []


def test_a_private_cluster_has_endpoints_for_every_service_that_nodes_call(closed: Deployment) -> None:
    endpoints = [point.inputs for point in closed.created(engine.VPC_ENDPOINT) if point.inputs["vpcEndpointType"] == "Interface"]
    assert {endpoint["serviceName"] for endpoint in endpoints} == {f"com.amazonaws.us-west-2.{service}" for service in SERVICES}
    assert all(endpoint["privateDnsEnabled"] and len(endpoint["subnetIds"]) == len(ZONES) for endpoint in endpoints)


def test_endpoints_admit_nodes_only(closed: Deployment) -> None:
    rule = closed.only(engine.INGRESS_RULE, "endpoint").inputs
    assert (rule["fromPort"], rule["toPort"], rule["referencedSecurityGroupId"]) == (443, 443, "gpumpi-test-nodes-id")


def test_endpoints_also_admit_the_networks_that_reach_the_private_api() -> None:
    stack = network({"endpointAccess": {"privateCidrs": ["10.8.0.0/16"]}}, natGateways="none", interfaceEndpoints=True)
    [group] = {point.inputs["securityGroupIds"][0] for point in stack.created(engine.VPC_ENDPOINT) if "subnetIds" in point.inputs}
    rules = [rule.inputs for rule in stack.created(engine.INGRESS_RULE) if rule.inputs["securityGroupId"] == group]
    assert {rule.get("cidrIpv4") for rule in rules} == {None, "10.8.0.0/16"}
    assert all((rule["ipProtocol"], rule["fromPort"], rule["toPort"]) == ("tcp", 443, 443) for rule in rules)


def test_nodes_of_a_private_cluster_reach_only_the_vpc_and_s3(closed: Deployment) -> None:
    rules = {rule.name.removeprefix("gpumpi-test-nodes-"): rule.inputs for rule in closed.created(engine.EGRESS_RULE)}
    assert set(rules) == {"self-egress", "10.0.0.0/16-egress", "s3-egress"}
    assert rules["s3-egress"]["prefixListId"] == "pl-mock" and rules["s3-egress"]["toPort"] == 443


def test_nodes_with_nat_reach_the_internet(usual: Deployment) -> None:
    assert {rule.inputs.get("cidrIpv4") for rule in usual.created(engine.EGRESS_RULE)} == {None, "0.0.0.0/0"}


def test_nodes_wait_for_the_endpoints_that_they_need_to_start(closed: Deployment) -> None:
    waits = closed.names_before(closed.only(engine.NODE_GROUP, "train"))
    assert {f"gpumpi-test-endpoint-{service}-endpoint" for service in SERVICES} <= waits


def test_endpoints_can_be_combined_with_nat() -> None:
    both = network(natGateways="one", interfaceEndpoints=True)
    assert both.created(engine.NAT_GATEWAY) and len(both.created(engine.VPC_ENDPOINT)) == 1 + len(SERVICES)


# --- existing network


def test_nothing_is_created_or_changed_in_an_existing_network(existing: Deployment) -> None:
    assert not [item.type for item in existing.resources if item.type.startswith("aws:ec2/") and item.type not in IN_ANY_NETWORK]


IN_ANY_NETWORK = {engine.SECURITY_GROUP, engine.PLACEMENT_GROUP, engine.LAUNCH_TEMPLATE}


def test_an_existing_network_s_subnets_are_used_as_they_are(existing: Deployment) -> None:
    subnets = [world.subnet_id("a"), world.subnet_id("b")]
    assert existing.only(engine.CLUSTER).inputs["vpcConfig"]["subnetIds"] == subnets
    assert existing.only(engine.NODE_GROUP, "system").inputs["subnetIds"] == subnets
    assert existing.only(engine.NODE_GROUP, "train").inputs["subnetIds"] == subnets[:1]
    assert existing.outputs["vpcId"] == world.VPC
    assert existing.outputs["privateSubnetIds"] == {"us-west-2a": subnets[:1], "us-west-2b": subnets[1:]}


def test_security_groups_are_created_in_the_existing_network(existing: Deployment) -> None:
    assert {group.inputs["vpcId"] for group in existing.created(engine.SECURITY_GROUP)} == {world.VPC}


def test_a_zone_with_two_existing_subnets_has_one_mount_target() -> None:
    settings = world.settings(world.pool(), network=world.existing_network(*map(world.subnet_id, "abc")))
    subnets = world.subnets(world.subnet("a"), world.subnet("b"), world.subnet("c", zone="us-west-2a"))
    deployment = deploy(settings, replace(world.facts(settings), subnets=subnets))
    assert sorted(target.inputs["subnetId"] for target in deployment.created(engine.MOUNT_TARGET)) == [
        world.subnet_id("a"),
        world.subnet_id("b"),
    ]
    assert len(deployment.only(engine.CLUSTER).inputs["vpcConfig"]["subnetIds"]) == 3
