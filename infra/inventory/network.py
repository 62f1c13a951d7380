"""Network resources: VPC, subnets, routes, gateways, endpoints and security groups."""

from typing import Final

from infra.facts.account_limits import ADDRESSES, GATEWAYS, INTERFACES, NAT_GATEWAYS, VPCS
from infra.inventory.entry import Charge, Counts, Entry, UsageItem, count_as_one
from infra.inventory.lookups import create_tag_lookup, find_route, find_route_table_association
from infra.inventory.resources import Resource

NETWORK: Final = "network"
SUBNET: Final = "aws:ec2/subnet:Subnet"
NETWORK_ADDRESS: Final = "aws:ec2/eip:Eip"
NAT_GATEWAY: Final = "aws:ec2/natGateway:NatGateway"

RULE: Final = create_tag_lookup("describe_security_group_rules", "SecurityGroupRules", "SecurityGroupRuleId")


def _is_interface_endpoint(endpoint: Resource) -> bool:
    return bool(endpoint.inputs["vpcEndpointType"] == "Interface")


def _count_interfaces(endpoint: Resource) -> int:
    return len(endpoint.inputs["subnetIds"]) if _is_interface_endpoint(endpoint) else 0


def _list_endpoint_charges(endpoint: Resource) -> tuple[Charge, ...]:
    if not _is_interface_endpoint(endpoint):
        return ()
    zones = Counts.from_constant(_count_interfaces(endpoint))
    return (Charge("VPC endpoints in zones", NETWORK, "vpc-endpoint-hour", zones),)


def _list_endpoint_usage(endpoint: Resource) -> tuple[UsageItem, ...]:
    usage = UsageItem("traffic through VPC endpoints", "GB", "vpc-endpoint-gb")
    return (usage,) if _is_interface_endpoint(endpoint) else ()


ENTRIES: Final = {
    "aws:ec2/vpc:Vpc": Entry(
        units={VPCS: count_as_one},
        exists=lambda vpc, facts: facts.existing.own_vpc is not None,
        lookup=create_tag_lookup("describe_vpcs", "Vpcs", "VpcId"),
    ),
    SUBNET: Entry(lookup=create_tag_lookup("describe_subnets", "Subnets", "SubnetId")),
    "aws:ec2/internetGateway:InternetGateway": Entry(
        units={GATEWAYS: count_as_one},
        exists=lambda gateway, facts: facts.existing.own_vpc is not None,
        lookup=create_tag_lookup("describe_internet_gateways", "InternetGateways", "InternetGatewayId"),
    ),
    NAT_GATEWAY: Entry(
        charges=lambda gateway: (Charge("NAT gateways", NETWORK, "nat-gateway-hour"),),
        usage=lambda gateway: (UsageItem("traffic through NAT gateways", "GB", "nat-gateway-gb"),),
        units={NAT_GATEWAYS: count_as_one},
        lookup=create_tag_lookup("describe_nat_gateways", "NatGateways", "NatGatewayId"),
    ),
    NETWORK_ADDRESS: Entry(
        optional={"ec2:AssociateAddress": lambda address: "networkInterface" in address.inputs},
        charges=lambda address: (Charge("public IPv4 addresses", NETWORK, "public-ipv4-hour"),),
        units={ADDRESSES: count_as_one},
        lookup=create_tag_lookup("describe_addresses", "Addresses", "AllocationId"),
    ),
    "aws:ec2/routeTable:RouteTable": Entry(lookup=create_tag_lookup("describe_route_tables", "RouteTables", "RouteTableId")),
    "aws:ec2/route:Route": Entry(lookup=find_route),
    "aws:ec2/routeTableAssociation:RouteTableAssociation": Entry(lookup=find_route_table_association),
    "aws:ec2/vpcEndpoint:VpcEndpoint": Entry(
        optional={"route53:AssociateVPCWithHostedZone": _is_interface_endpoint},
        charges=_list_endpoint_charges,
        usage=_list_endpoint_usage,
        units={INTERFACES: _count_interfaces},
        lookup=create_tag_lookup("describe_vpc_endpoints", "VpcEndpoints", "VpcEndpointId"),
    ),
    "aws:ec2/flowLog:FlowLog": Entry(
        passes_roles_to="vpc-flow-logs.amazonaws.com",
        lookup=create_tag_lookup("describe_flow_logs", "FlowLogs", "FlowLogId", filters_key="Filter"),
    ),
    "aws:ec2/defaultSecurityGroup:DefaultSecurityGroup": Entry(),
    "aws:ec2/securityGroup:SecurityGroup": Entry(
        lookup=create_tag_lookup("describe_security_groups", "SecurityGroups", "GroupId")
    ),
    "aws:vpc/securityGroupIngressRule:SecurityGroupIngressRule": Entry(lookup=RULE),
    "aws:vpc/securityGroupEgressRule:SecurityGroupEgressRule": Entry(lookup=RULE),
}
