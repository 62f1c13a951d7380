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


def deploy_network(target: dict[str, Any] | None = None, **asked: Any) -> Deployment:
    settings = world.settings(world.pool(), network=asked, target=target or {})
    return deploy(settings, world.account_facts(settings))


@pytest.fixture(scope="module")
def default_network() -> Deployment:
    return deploy_network()


@pytest.fixture(scope="module")
def private_network() -> Deployment:
    return deploy_network({"endpointAccess": {}}, natGateways="none", interfaceEndpoints=True)


@pytest.fixture(scope="module")
def network_in_existing_vpc() -> Deployment:
    return deploy_network(**world.existing_network())


def list_zones(resources: list[engine.Resource]) -> list[str]:
    return sorted(resource.inputs["availabilityZone"] for resource in resources)


def test_every_zone_has_a_private_and_a_public_subnet(default_network: Deployment) -> None:
    assert list_zones(default_network.find_resources(engine.SUBNET, "private")) == ZONES
    assert list_zones(default_network.find_resources(engine.SUBNET, "public")) == ZONES


def test_no_subnet_assigns_public_addresses(default_network: Deployment) -> None:
    assert {subnet.inputs["mapPublicIpOnLaunch"] for subnet in default_network.find_resources(engine.SUBNET)} == {False}


def test_subnets_have_the_tags_that_eks_requires(default_network: Deployment) -> None:
    for kind, role in (("private", "kubernetes.io/role/internal-elb"), ("public", "kubernetes.io/role/elb")):
        for subnet in default_network.find_resources(engine.SUBNET, kind):
            assert subnet.inputs["tags"]["kubernetes.io/cluster/gpumpi-test"] == "shared"
            assert subnet.inputs["tags"][role] == "1"


def test_vpc_dns_names_resolve_inside_the_vpc(default_network: Deployment) -> None:
    vpc = default_network.find_resource(engine.VPC).inputs
    assert vpc["enableDnsSupport"] and vpc["enableDnsHostnames"]


def test_the_default_security_group_allows_no_traffic(default_network: Deployment) -> None:
    group = default_network.find_resource(engine.DEFAULT_SECURITY_GROUP).inputs
    assert "ingress" not in group and "egress" not in group
    assert "tags" not in group, "anyone who may tag this group may tag every security group of the account"


def test_flow_logs_cover_all_traffic_are_encrypted_and_expire(default_network: Deployment) -> None:
    assert default_network.find_resource(engine.FLOW_LOG).inputs["trafficType"] == "ALL"
    group = default_network.find_resource(engine.LOG_GROUP, "flow-logs").inputs
    assert group["name"] == "/gpumpi/test/flow-logs" and group["retentionInDays"] == 90 and group["kmsKeyId"]


@pytest.mark.parametrize(
    ("nat", "gateways"), [(None, ["us-west-2a"]), ("one", ["us-west-2a"]), ("perZone", ZONES)], ids=["default", "one", "perZone"]
)
def test_the_number_of_nat_gateways_matches_the_configuration(nat: str | None, gateways: list[str]) -> None:
    deployment = deploy_network(natGateways=nat) if nat else deploy_network()
    assert sorted(gateway.name.split("-nat-")[1] for gateway in deployment.find_resources(engine.NAT_GATEWAY)) == [
        f"{zone}-gateway" for zone in gateways
    ]
    routes = {route.name: route.inputs["natGatewayId"] for route in deployment.find_resources(engine.ROUTE, "private")}
    assert len(routes) == len(ZONES)
    for zone in ZONES:
        through = zone if zone in gateways else gateways[0]
        assert routes[f"gpumpi-test-network-private-{zone}-internet-route"] == f"gpumpi-test-network-nat-{through}-gateway-id"


def test_every_private_subnet_reaches_s3_without_nat(default_network: Deployment) -> None:
    endpoint = default_network.find_resource(engine.VPC_ENDPOINT, "s3").inputs
    assert endpoint["vpcEndpointType"] == "Gateway" and endpoint["serviceName"] == "com.amazonaws.us-west-2.s3"
    assert len(endpoint["routeTableIds"]) == len(ZONES)


@pytest.mark.parametrize(("nat", "reads_all"), [("one", True), ("none", False)])
def test_the_s3_endpoint_admits_foreign_buckets_only_if_nat_exists(nat: str, reads_all: bool) -> None:
    deployment = deploy_network(natGateways=nat, **({"interfaceEndpoints": True} if nat == "none" else {}))
    policy = json.loads(deployment.find_resource(engine.VPC_ENDPOINT, "s3-endpoint").inputs["policy"])
    stranger = {"aws:PrincipalAccount": "999999999999"}
    assert allows(Request("s3:GetObject", "arn:aws:s3:::data-set/x", stranger), policy) is reads_all
    assert not allows(Request("s3:PutObject", "arn:aws:s3:::data-set/x", stranger), policy)
    assert allows(Request("s3:PutObject", "arn:aws:s3:::any/x", {"aws:PrincipalAccount": "123456789012"}), policy)


@pytest.mark.parametrize("zones", [2, 3, 4, ["us-west-2b", "us-west-2d"]], ids=str)
def test_the_addresses_of_a_zone_do_not_depend_on_the_other_zones(zones: Any) -> None:
    blocks = {
        "us-west-2a": "10.0.0.0/20",
        "us-west-2b": "10.0.16.0/20",
        "us-west-2c": "10.0.32.0/20",
        "us-west-2d": "10.0.48.0/20",
    }
    for subnet in deploy_network(zones=zones).find_resources(engine.SUBNET, "private"):
        assert subnet.inputs["cidrBlock"] == blocks[subnet.inputs["availabilityZone"]]


# --- private cluster


def test_a_private_cluster_has_no_route_to_the_internet(private_network: Deployment) -> None:
    for token in (engine.INTERNET_GATEWAY, engine.NAT_GATEWAY, engine.ROUTE, "aws:ec2/eip:Eip"):
        assert private_network.find_resources(token) == []
    assert private_network.find_resources(engine.SUBNET, "public") == []


def test_a_private_cluster_has_endpoints_for_every_service_called_by_nodes(private_network: Deployment) -> None:
    endpoints = [
        point.inputs
        for point in private_network.find_resources(engine.VPC_ENDPOINT)
        if point.inputs["vpcEndpointType"] == "Interface"
    ]
    assert {endpoint["serviceName"] for endpoint in endpoints} == {f"com.amazonaws.us-west-2.{service}" for service in SERVICES}
    assert all(endpoint["privateDnsEnabled"] and len(endpoint["subnetIds"]) == len(ZONES) for endpoint in endpoints)


def test_endpoints_admit_only_nodes(private_network: Deployment) -> None:
    rule = private_network.find_resource(engine.INGRESS_RULE, "endpoint").inputs
    assert (rule["fromPort"], rule["toPort"], rule["referencedSecurityGroupId"]) == (443, 443, "gpumpi-test-nodes-id")


def test_endpoints_also_admit_networks_with_access_to_the_private_api() -> None:
    stack = deploy_network({"endpointAccess": {"privateCidrs": ["10.8.0.0/16"]}}, natGateways="none", interfaceEndpoints=True)
    [group] = {
        point.inputs["securityGroupIds"][0] for point in stack.find_resources(engine.VPC_ENDPOINT) if "subnetIds" in point.inputs
    }
    rules = [rule.inputs for rule in stack.find_resources(engine.INGRESS_RULE) if rule.inputs["securityGroupId"] == group]
    assert {rule.get("cidrIpv4") for rule in rules} == {None, "10.8.0.0/16"}
    assert all((rule["ipProtocol"], rule["fromPort"], rule["toPort"]) == ("tcp", 443, 443) for rule in rules)


def test_nodes_of_a_private_cluster_can_reach_only_the_vpc_and_s3(private_network: Deployment) -> None:
    rules = {
        rule.name.removeprefix("gpumpi-test-nodes-"): rule.inputs for rule in private_network.find_resources(engine.EGRESS_RULE)
    }
    assert set(rules) == {"self-egress", "10.0.0.0/16-egress", "s3-egress"}
    assert rules["s3-egress"]["prefixListId"] == "pl-mock" and rules["s3-egress"]["toPort"] == 443


def test_nodes_behind_nat_can_reach_the_internet(default_network: Deployment) -> None:
    assert {rule.inputs.get("cidrIpv4") for rule in default_network.find_resources(engine.EGRESS_RULE)} == {None, "0.0.0.0/0"}


def test_nodes_are_created_after_the_endpoints_they_need_to_start(private_network: Deployment) -> None:
    waits = private_network.list_dependency_names(private_network.find_resource(engine.NODE_GROUP, "train"))
    assert {f"gpumpi-test-endpoint-{service}-endpoint" for service in SERVICES} <= waits


def test_endpoints_can_be_combined_with_nat() -> None:
    both = deploy_network(natGateways="one", interfaceEndpoints=True)
    assert both.find_resources(engine.NAT_GATEWAY) and len(both.find_resources(engine.VPC_ENDPOINT)) == 1 + len(SERVICES)


# --- existing network


def test_nothing_is_created_or_changed_in_an_existing_network(network_in_existing_vpc: Deployment) -> None:
    assert not [
        item.type
        for item in network_in_existing_vpc.resources
        if item.type.startswith("aws:ec2/") and item.type not in IN_ANY_NETWORK
    ]


IN_ANY_NETWORK = {engine.SECURITY_GROUP, engine.PLACEMENT_GROUP, engine.LAUNCH_TEMPLATE}


def test_subnets_of_an_existing_network_are_used_unchanged(network_in_existing_vpc: Deployment) -> None:
    subnets = [world.subnet_id("a"), world.subnet_id("b")]
    assert network_in_existing_vpc.find_resource(engine.CLUSTER).inputs["vpcConfig"]["subnetIds"] == subnets
    assert network_in_existing_vpc.find_resource(engine.NODE_GROUP, "system").inputs["subnetIds"] == subnets
    assert network_in_existing_vpc.find_resource(engine.NODE_GROUP, "train").inputs["subnetIds"] == subnets[:1]
    assert network_in_existing_vpc.outputs["vpcId"] == world.VPC
    assert network_in_existing_vpc.outputs["privateSubnetIds"] == {"us-west-2a": subnets[:1], "us-west-2b": subnets[1:]}


def test_security_groups_are_created_in_the_existing_vpc(network_in_existing_vpc: Deployment) -> None:
    assert {group.inputs["vpcId"] for group in network_in_existing_vpc.find_resources(engine.SECURITY_GROUP)} == {world.VPC}


def test_a_zone_with_two_existing_subnets_gets_one_mount_target() -> None:
    settings = world.settings(world.pool(), network=world.existing_network(*map(world.subnet_id, "abc")))
    subnets = world.subnets(world.subnet("a"), world.subnet("b"), world.subnet("c", zone="us-west-2a"))
    deployment = deploy(settings, replace(world.account_facts(settings), subnets=subnets))
    assert sorted(target.inputs["subnetId"] for target in deployment.find_resources(engine.MOUNT_TARGET)) == [
        world.subnet_id("a"),
        world.subnet_id("b"),
    ]
    assert len(deployment.find_resource(engine.CLUSTER).inputs["vpcConfig"]["subnetIds"]) == 3
