"""A VPC whose resources depend on each other, for calls that EC2 rejects because of these dependencies."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import boto3
from moto import mock_aws

from testkit.aws_clients import NO_RETRIES, REGION
from tests.local_aws.ec2_world import World, make_world
from tests.local_aws.refusals import Refusal

VPC = "https://docs.aws.amazon.com/vpc/latest"
LINK = f"{VPC}/privatelink"
S3 = "com.amazonaws.us-west-2.s3"
STS = "com.amazonaws.us-west-2.sts"


@dataclass(frozen=True)
class Network:
    vpc: str
    subnets: tuple[str, ...]
    group: str
    gateway: str
    address: str
    nat: str
    table: str
    other_table: str
    association: str
    quiet_vpc: str
    """A VPC without DNS hostnames."""
    quiet_subnet: str
    default_group: str


def make_network(world: World) -> Network:
    ec2 = world.ec2
    gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=world.vpc)
    address = ec2.allocate_address(Domain="vpc")["AllocationId"]
    nat = ec2.create_nat_gateway(SubnetId=world.subnets[0], AllocationId=address)["NatGateway"]["NatGatewayId"]
    table, other = (ec2.create_route_table(VpcId=world.vpc)["RouteTable"]["RouteTableId"] for _ in range(2))
    association = ec2.associate_route_table(RouteTableId=table, SubnetId=world.subnets[1])["AssociationId"]
    ec2.create_route(RouteTableId=table, DestinationCidrBlock="0.0.0.0/0", NatGatewayId=nat)
    ec2.create_vpc_endpoint(VpcId=world.vpc, ServiceName=S3, RouteTableIds=[table])
    ec2.create_vpc_endpoint(
        VpcId=world.vpc,
        ServiceName=STS,
        VpcEndpointType="Interface",
        SubnetIds=[world.subnets[1]],
        SecurityGroupIds=[world.group],
    )
    quiet = ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
    quiet_subnet = ec2.create_subnet(VpcId=quiet, CidrBlock="10.9.0.0/24", AvailabilityZone="us-west-2a")["Subnet"]["SubnetId"]
    filters = [{"Name": "vpc-id", "Values": [world.vpc]}, {"Name": "group-name", "Values": ["default"]}]
    default_group = ec2.describe_security_groups(Filters=filters)["SecurityGroups"][0]["GroupId"]
    return Network(
        world.vpc,
        world.subnets,
        world.group,
        gateway,
        address,
        nat,
        table,
        other,
        association,
        quiet,
        quiet_subnet,
        default_group,
    )


def count_resources(ec2: Any, vpc: str) -> dict[str, int]:
    filters = [{"Name": "vpc-id", "Values": [vpc]}]
    return {
        "vpcs": len(ec2.describe_vpcs()["Vpcs"]),
        "subnets": len(ec2.describe_subnets(Filters=filters)["Subnets"]),
        "tables": len(ec2.describe_route_tables(Filters=filters)["RouteTables"]),
        "groups": len(ec2.describe_security_groups(Filters=filters)["SecurityGroups"]),
        "interfaces": len(ec2.describe_network_interfaces(Filters=filters)["NetworkInterfaces"]),
        "endpoints": len(ec2.describe_vpc_endpoints(Filters=filters)["VpcEndpoints"]),
        "addresses": len(ec2.describe_addresses()["Addresses"]),
    }


def check_refusal(world_and_network: tuple[World, Network], refusal: Refusal) -> None:
    """Check that the call fails with AWS's error and neither creates nor deletes anything."""
    world, network = world_and_network
    before = count_resources(world.ec2, world.vpc)
    refusal.check(world.ec2, **({"network": network} if callable(refusal.params) else {}))
    assert count_resources(world.ec2, world.vpc) == before


@contextmanager
def shared_network() -> Iterator[tuple[World, Network]]:
    """One environment shared by all rejected calls in a test module; this is safe because a rejected call changes
    nothing.
    """
    with mock_aws():
        world = make_world(lambda service, region=REGION: boto3.client(service, region, config=NO_RETRIES))
        yield world, make_network(world)
