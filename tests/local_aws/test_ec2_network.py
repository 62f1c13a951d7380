"""VPC resources: their states and durations, dependencies between them, and complete deletion."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from localcloud.aws import durations, inventory
from localcloud.aws.ec2 import seed_network
from localcloud.aws.ec2.networks import SeededSubnet
from testkit.aws_clients import Client
from tests.local_aws.ec2_world import World, make_world

S3 = "com.amazonaws.us-west-2.s3"


@pytest.fixture
def world(aws: Client) -> World:
    return make_world(aws)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The local AWS's clock; `clock[0] += seconds` advances it."""
    now = [0.0]
    monkeypatch.setattr(durations, "now", lambda: now[0])
    durations.set_factor(1)
    return now


def create_internet_gateway(world: World) -> str:
    gateway = world.ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    world.ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=world.vpc)
    return str(gateway)


def create_nat_gateway(world: World) -> tuple[str, str]:
    """Create a NAT gateway; return its id and the allocation id of its Elastic IP address."""
    address = world.ec2.allocate_address(Domain="vpc")["AllocationId"]
    return world.ec2.create_nat_gateway(SubnetId=world.subnets[0], AllocationId=address)["NatGateway"]["NatGatewayId"], address


def describe_nat_gateway(world: World, gateway: str) -> dict[str, Any]:
    return dict(world.ec2.describe_nat_gateways(NatGatewayIds=[gateway])["NatGateways"][0])


def test_a_nat_gateway_goes_from_pending_to_available_to_deleting_to_deleted(world: World, clock: list[float]) -> None:
    create_internet_gateway(world)
    gateway, address = create_nat_gateway(world)
    assert describe_nat_gateway(world, gateway)["State"] == "pending"
    clock[0] += durations.compute_scaled_seconds("ec2-nat-gateway")
    shown = describe_nat_gateway(world, gateway)
    assert (shown["State"], shown["NatGatewayAddresses"][0]["AllocationId"]) == ("available", address)
    interface = world.ec2.describe_network_interfaces(NetworkInterfaceIds=[shown["NatGatewayAddresses"][0]["NetworkInterfaceId"]])
    shown_interface = interface["NetworkInterfaces"][0]
    assert (shown_interface["InterfaceType"], shown_interface["SubnetId"]) == ("nat_gateway", world.subnets[0])
    assert shown_interface["PrivateIpAddress"].startswith("10.0.0.")
    world.ec2.delete_nat_gateway(NatGatewayId=gateway)
    assert describe_nat_gateway(world, gateway)["State"] == "deleting"
    with pytest.raises(ClientError, match=r"InvalidIPAddress\.InUse"):
        world.ec2.release_address(AllocationId=address)
    clock[0] += durations.compute_scaled_seconds("ec2-nat-gateway-delete")
    assert describe_nat_gateway(world, gateway)["State"] == "deleted"
    world.ec2.release_address(AllocationId=address)
    world.ec2.delete_subnet(SubnetId=world.subnets[0])


def test_a_nat_gateway_without_an_internet_gateway_fails_after_a_delay(world: World) -> None:
    gateway, _ = create_nat_gateway(world)
    shown = describe_nat_gateway(world, gateway)
    assert (shown["State"], shown["FailureCode"]) == ("failed", "Gateway.NotAttached")


def test_an_interface_endpoint_blocks_deletion_of_its_subnets_and_security_groups(world: World, clock: list[float]) -> None:
    ec2, subnets = world.ec2, list(world.subnets[:2])
    endpoint = ec2.create_vpc_endpoint(
        VpcId=world.vpc,
        ServiceName="com.amazonaws.us-west-2.ecr.api",
        VpcEndpointType="Interface",
        SubnetIds=subnets,
        SecurityGroupIds=[world.group],
    )["VpcEndpoint"]
    assert (endpoint["State"], endpoint["PrivateDnsEnabled"], len(endpoint["NetworkInterfaceIds"])) == ("pending", True, 2)
    assert endpoint["DnsEntries"][-1]["DnsName"] == "api.ecr.us-west-2.amazonaws.com"
    clock[0] += durations.compute_scaled_seconds("ec2-vpc-endpoint-interface")
    ids = [endpoint["VpcEndpointId"]]
    assert ec2.describe_vpc_endpoints(VpcEndpointIds=ids)["VpcEndpoints"][0]["State"] == "available"
    interfaces = ec2.describe_network_interfaces(NetworkInterfaceIds=endpoint["NetworkInterfaceIds"])["NetworkInterfaces"]
    assert {(item["InterfaceType"], item["RequesterManaged"]) for item in interfaces} == {("vpc_endpoint", True)}
    assert [item["SubnetId"] for item in interfaces] == subnets
    ec2.delete_vpc_endpoints(VpcEndpointIds=ids)
    for call, params in ((ec2.delete_security_group, {"GroupId": world.group}), (ec2.delete_subnet, {"SubnetId": subnets[0]})):
        with pytest.raises(ClientError, match="DependencyViolation"):
            call(**params)
    clock[0] += durations.compute_scaled_seconds("ec2-vpc-endpoint-delete")
    ec2.delete_security_group(GroupId=world.group)
    ec2.delete_subnet(SubnetId=subnets[0])


def test_an_interface_endpoint_can_change_its_subnets_and_security_groups(world: World) -> None:
    ec2 = world.ec2
    endpoint = ec2.create_vpc_endpoint(
        VpcId=world.vpc, ServiceName="com.amazonaws.us-west-2.sts", VpcEndpointType="Interface", SubnetIds=[world.subnets[0]]
    )["VpcEndpoint"]["VpcEndpointId"]
    before = ec2.describe_vpc_endpoints(VpcEndpointIds=[endpoint])["VpcEndpoints"][0]["Groups"]
    ec2.modify_vpc_endpoint(
        VpcEndpointId=endpoint,
        AddSubnetIds=[world.subnets[1]],
        RemoveSubnetIds=[world.subnets[0]],
        AddSecurityGroupIds=[world.group],
        RemoveSecurityGroupIds=[before[0]["GroupId"]],
    )
    interfaces = ec2.describe_network_interfaces(Filters=[{"Name": "interface-type", "Values": ["vpc_endpoint"]}])[
        "NetworkInterfaces"
    ]
    assert [(item["SubnetId"], item["Groups"][0]["GroupId"]) for item in interfaces] == [(world.subnets[1], world.group)]


def test_a_gateway_endpoint_adds_routes_and_has_no_private_dns(world: World) -> None:
    ec2 = world.ec2
    first, second = (ec2.create_route_table(VpcId=world.vpc)["RouteTable"]["RouteTableId"] for _ in range(2))
    endpoint = ec2.create_vpc_endpoint(VpcId=world.vpc, ServiceName=S3, RouteTableIds=[first])["VpcEndpoint"]
    assert (endpoint["VpcEndpointType"], endpoint["PrivateDnsEnabled"]) == ("Gateway", False)

    def list_targets(table: str) -> list[str]:
        routes = ec2.describe_route_tables(RouteTableIds=[table])["RouteTables"][0]["Routes"]
        return [route["GatewayId"] for route in routes if "DestinationPrefixListId" in route]

    assert list_targets(first) == [endpoint["VpcEndpointId"]]
    ec2.modify_vpc_endpoint(VpcEndpointId=endpoint["VpcEndpointId"], AddRouteTableIds=[second], RemoveRouteTableIds=[first])
    assert (list_targets(first), list_targets(second)) == ([], [endpoint["VpcEndpointId"]])
    ec2.delete_vpc_endpoints(VpcEndpointIds=[endpoint["VpcEndpointId"]])
    assert list_targets(second) == []


def test_create_flow_logs_names_the_resources_that_failed(world: World) -> None:
    def create_flow_logs(*ids: str) -> dict[str, Any]:
        role = "arn:aws:iam::123456789012:role/logs"
        answer = world.ec2.create_flow_logs(
            ResourceIds=list(ids), ResourceType="VPC", TrafficType="ALL", LogGroupName="flows", DeliverLogsPermissionArn=role
        )
        return {item["ResourceId"]: item["Error"]["Code"] for item in answer["Unsuccessful"]}

    assert create_flow_logs(world.vpc, "vpc-00000000000000000") == {"vpc-00000000000000000": "InvalidVpcID.NotFound"}
    assert create_flow_logs(world.vpc) == {world.vpc: "FlowLogAlreadyExists"}


def test_a_vpc_gets_the_default_dhcp_options_of_its_region(world: World) -> None:
    vpc = world.ec2.describe_vpcs(VpcIds=[world.vpc])["Vpcs"][0]
    options = world.ec2.describe_dhcp_options(DhcpOptionsIds=[vpc["DhcpOptionsId"]])["DhcpOptions"][0]
    shown = {item["Key"]: item["Values"][0]["Value"] for item in options["DhcpConfigurations"]}
    assert shown == {"domain-name": "us-west-2.compute.internal", "domain-name-servers": "AmazonProvidedDNS"}


def test_a_subnet_keeps_its_hostname_type(world: World) -> None:
    world.ec2.modify_subnet_attribute(SubnetId=world.subnets[0], PrivateDnsHostnameTypeOnLaunch="resource-name")
    world.ec2.modify_subnet_attribute(SubnetId=world.subnets[0], EnableResourceNameDnsARecordOnLaunch={"Value": True})
    options = world.ec2.describe_subnets(SubnetIds=[world.subnets[0]])["Subnets"][0]["PrivateDnsNameOptionsOnLaunch"]
    assert (options["HostnameType"], options["EnableResourceNameDnsARecord"]) == ("resource-name", True)


def test_interfaces_get_the_lowest_free_private_addresses(world: World) -> None:
    def create_interface() -> dict[str, Any]:
        return dict(world.ec2.create_network_interface(SubnetId=world.subnets[0])["NetworkInterface"])

    interfaces = [create_interface() for _ in range(3)]
    assert [item["PrivateIpAddress"] for item in interfaces] == ["10.0.0.4", "10.0.0.5", "10.0.0.6"], (
        "AWS reserves the first four addresses"
    )
    world.ec2.delete_network_interface(NetworkInterfaceId=interfaces[1]["NetworkInterfaceId"])
    assert create_interface()["PrivateIpAddress"] == "10.0.0.5"


@pytest.mark.parametrize("kind", ["efa", "efa-only"])
def test_an_efa_interface_has_interface_type_efa(world: World, kind: str) -> None:
    interface = world.ec2.create_network_interface(SubnetId=world.subnets[0], InterfaceType=kind)["NetworkInterface"]
    shown = world.ec2.describe_network_interfaces(NetworkInterfaceIds=[interface["NetworkInterfaceId"]])["NetworkInterfaces"][0]
    assert (shown["InterfaceType"], "PrivateIpAddress" in shown) == (kind, kind == "efa")


def test_seeded_prerequisites_create_a_vpc_with_the_requested_ids(aws: Client) -> None:
    seed_network(
        "vpc-0123456789abcdef0",
        "10.9.0.0/16",
        [
            SeededSubnet("subnet-0aaaaaaaaaaaaaaaa", "eu-west-1a", "10.9.0.0/20"),
            SeededSubnet("subnet-0bbbbbbbbbbbbbbbb", "eu-west-1b", "10.9.16.0/20"),
            SeededSubnet("subnet-0cccccccccccccccc", "eu-west-1c", "10.9.32.0/20", public=True),
        ],
        file_system_id="fs-0123456789abcdef0",
    )
    ec2, efs = aws("ec2", "eu-west-1"), aws("efs", "eu-west-1")
    filters = [{"Name": "vpc-id", "Values": ["vpc-0123456789abcdef0"]}]
    subnets = ec2.describe_subnets(Filters=filters)["Subnets"]
    assert {item["SubnetId"][7:10] for item in subnets} == {"0aa", "0bb", "0cc"}
    assert ec2.describe_nat_gateways(Filters=filters)["NatGateways"][0]["State"] == "available"
    targets = efs.describe_mount_targets(FileSystemId="fs-0123456789abcdef0")["MountTargets"]
    assert {item["AvailabilityZoneName"] for item in targets} == {"eu-west-1a", "eu-west-1b"}


def test_a_deleted_vpc_leaves_nothing_behind(aws: Client) -> None:
    world = make_world(aws)
    ec2, gateway = world.ec2, create_internet_gateway(world)
    nat, address = create_nat_gateway(world)
    table = ec2.create_route_table(VpcId=world.vpc)["RouteTable"]["RouteTableId"]
    association = ec2.associate_route_table(RouteTableId=table, SubnetId=world.subnets[0])["AssociationId"]
    endpoint = ec2.create_vpc_endpoint(VpcId=world.vpc, ServiceName=S3, RouteTableIds=[table])["VpcEndpoint"]["VpcEndpointId"]
    world.template()
    ec2.create_placement_group(GroupName="close")
    volumes = [{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 50, "Encrypted": True}}]
    instance = world.run(Placement={"GroupName": "close"}, BlockDeviceMappings=volumes)[0]["InstanceId"]
    assert inventory.list_leftovers()
    ec2.terminate_instances(InstanceIds=[instance])
    ec2.delete_placement_group(GroupName="close")
    ec2.delete_launch_template(LaunchTemplateName="nodes")
    ec2.delete_vpc_endpoints(VpcEndpointIds=[endpoint])
    ec2.delete_nat_gateway(NatGatewayId=nat)
    ec2.describe_nat_gateways()
    ec2.release_address(AllocationId=address)
    ec2.detach_internet_gateway(InternetGatewayId=gateway, VpcId=world.vpc)
    ec2.delete_internet_gateway(InternetGatewayId=gateway)
    ec2.disassociate_route_table(AssociationId=association)
    ec2.delete_route_table(RouteTableId=table)
    for subnet in world.subnets:
        ec2.delete_subnet(SubnetId=subnet)
    ec2.delete_security_group(GroupId=world.group)
    ec2.delete_vpc(VpcId=world.vpc)
    assert [str(item) for item in inventory.list_leftovers()] == []
