"""Create routes to the internet for a VPC's subnets. EKS nodes need these routes to join their cluster."""

from dataclasses import dataclass
from typing import Any

ANYWHERE = "0.0.0.0/0"


@dataclass(frozen=True)
class Routes:
    nat_gateway: str
    main_table: str
    """Main route table of the VPC, with a route to the NAT gateway."""
    public_table: str
    """Route table with a route to the internet gateway."""


def add_nat_gateway(ec2: Any, vpc: str, cidr: str, zone: str) -> Routes:
    """Create a public subnet with a NAT gateway, and route the VPC's traffic to the internet through this gateway."""
    internet = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    ec2.attach_internet_gateway(InternetGatewayId=internet, VpcId=vpc)
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock=cidr, AvailabilityZone=zone)["Subnet"]["SubnetId"]
    public = ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
    ec2.create_route(RouteTableId=public, DestinationCidrBlock=ANYWHERE, GatewayId=internet)
    ec2.associate_route_table(RouteTableId=public, SubnetId=subnet)
    address = ec2.allocate_address(Domain="vpc")["AllocationId"]
    nat = ec2.create_nat_gateway(SubnetId=subnet, AllocationId=address)["NatGateway"]["NatGatewayId"]
    filters = [{"Name": "vpc-id", "Values": [vpc]}, {"Name": "association.main", "Values": ["true"]}]
    main = ec2.describe_route_tables(Filters=filters)["RouteTables"][0]["RouteTableId"]
    ec2.create_route(RouteTableId=main, DestinationCidrBlock=ANYWHERE, NatGatewayId=nat)
    return Routes(nat, main, public)
