"""VPC calls that EC2 rejects."""

from collections.abc import Iterator

import pytest

from tests.local_aws.ec2_refusals import API, ERRORS
from tests.local_aws.ec2_world import World
from tests.local_aws.refusals import Refusal
from tests.local_aws.vpc_world import VPC, Network, check_refusal, shared_network


@pytest.fixture(scope="module")
def world_and_network() -> Iterator[tuple[World, Network]]:
    with shared_network() as network:
        yield network


NETWORKS = [
    Refusal("a CIDR larger than /16", "create_vpc", {"CidrBlock": "10.0.0.0/8"}, "InvalidVpc.Range", f"{API}/API_CreateVpc.html"),
    Refusal(
        "a dry run that would succeed", "create_vpc", {"CidrBlock": "10.5.0.0/16", "DryRun": True}, "DryRunOperation", ERRORS
    ),
    Refusal(
        "a VPC with subnets",
        "delete_vpc",
        lambda network: {"VpcId": network.vpc},
        "DependencyViolation",
        f"{VPC}/userguide/delete-vpc.html",
    ),
    Refusal("a nonexistent VPC", "delete_vpc", {"VpcId": "vpc-00000000000000000"}, "InvalidVpcID.NotFound", ERRORS),
    Refusal(
        "a subnet outside the VPC",
        "create_subnet",
        lambda network: {"VpcId": network.vpc, "CidrBlock": "10.1.0.0/24"},
        "InvalidSubnet.Range",
        ERRORS,
    ),
    Refusal(
        "a subnet smaller than /28",
        "create_subnet",
        lambda network: {"VpcId": network.vpc, "CidrBlock": "10.0.200.0/29"},
        "InvalidSubnet.Range",
        f"{VPC}/userguide/subnet-sizing.html",
    ),
    Refusal(
        "an overlapping subnet",
        "create_subnet",
        lambda network: {"VpcId": network.vpc, "CidrBlock": "10.0.0.0/25"},
        "InvalidSubnet.Conflict",
        ERRORS,
    ),
    Refusal(
        "a zone of another region",
        "create_subnet",
        lambda network: {"VpcId": network.vpc, "CidrBlock": "10.0.9.0/24", "AvailabilityZone": "us-east-1a"},
        "InvalidParameterValue",
        f"{API}/API_CreateSubnet.html",
    ),
    Refusal(
        "a subnet with a NAT gateway",
        "delete_subnet",
        lambda network: {"SubnetId": network.subnets[0]},
        "DependencyViolation",
        ERRORS,
    ),
    Refusal(
        "a subnet with an endpoint",
        "delete_subnet",
        lambda network: {"SubnetId": network.subnets[1]},
        "DependencyViolation",
        ERRORS,
    ),
    Refusal(
        "an unknown host name type",
        "modify_subnet_attribute",
        lambda network: {"SubnetId": network.subnets[0], "PrivateDnsHostnameTypeOnLaunch": "pretty-name"},
        "InvalidParameterValue",
        f"{API}/API_ModifySubnetAttribute.html",
    ),
    Refusal(
        "a subnet that already has a route table",
        "associate_route_table",
        lambda network: {"RouteTableId": network.other_table, "SubnetId": network.subnets[1]},
        "Resource.AlreadyAssociated",
        ERRORS,
        "conflicts with an existing association",
    ),
    Refusal(
        "a subnet of another VPC",
        "associate_route_table",
        lambda network: {"RouteTableId": network.table, "SubnetId": network.quiet_subnet},
        "InvalidParameterValue",
        f"{API}/API_AssociateRouteTable.html",
    ),
    Refusal(
        "a route table in use",
        "delete_route_table",
        lambda network: {"RouteTableId": network.table},
        "DependencyViolation",
        ERRORS,
    ),
    Refusal(
        "an existing route",
        "create_route",
        lambda network: {"RouteTableId": network.table, "DestinationCidrBlock": "0.0.0.0/0", "NatGatewayId": network.nat},
        "RouteAlreadyExists",
        ERRORS,
    ),
    Refusal(
        "a nonexistent NAT gateway",
        "create_route",
        lambda network: {
            "RouteTableId": network.other_table,
            "DestinationCidrBlock": "0.0.0.0/0",
            "NatGatewayId": "nat-00000000000000000",
        },
        "InvalidNatGatewayID.NotFound",
        ERRORS,
    ),
    Refusal(
        "a route without a target",
        "create_route",
        lambda network: {"RouteTableId": network.other_table, "DestinationCidrBlock": "0.0.0.0/0"},
        "MissingParameter",
        f"{API}/API_CreateRoute.html",
    ),
    Refusal(
        "a route with two targets",
        "create_route",
        lambda network: {
            "RouteTableId": network.other_table,
            "DestinationCidrBlock": "0.0.0.0/0",
            "NatGatewayId": network.nat,
            "GatewayId": network.gateway,
        },
        "InvalidParameterCombination",
        f"{API}/API_CreateRoute.html",
    ),
    Refusal(
        "an attached internet gateway",
        "attach_internet_gateway",
        lambda network: {"InternetGatewayId": network.gateway, "VpcId": network.quiet_vpc},
        "Resource.AlreadyAssociated",
        ERRORS,
    ),
    Refusal(
        "an internet gateway while a NAT gateway has a public address",
        "detach_internet_gateway",
        lambda network: {"InternetGatewayId": network.gateway, "VpcId": network.vpc},
        "DependencyViolation",
        f"{API}/API_DetachInternetGateway.html",
        "has some mapped public address(es)",
    ),
    Refusal(
        "an attached internet gateway",
        "delete_internet_gateway",
        lambda network: {"InternetGatewayId": network.gateway},
        "DependencyViolation",
        ERRORS,
    ),
    Refusal(
        "an address in use",
        "release_address",
        lambda network: {"AllocationId": network.address},
        "InvalidIPAddress.InUse",
        ERRORS,
    ),
    Refusal(
        "a nonexistent Elastic IP address",
        "release_address",
        {"AllocationId": "eipalloc-00000000"},
        "InvalidAllocationID.NotFound",
        ERRORS,
    ),
    Refusal(
        "a public NAT gateway without an Elastic IP address",
        "create_nat_gateway",
        lambda network: {"SubnetId": network.subnets[0]},
        "MissingParameter",
        f"{API}/API_CreateNatGateway.html",
    ),
    Refusal(
        "a nonexistent Elastic IP address",
        "create_nat_gateway",
        lambda network: {"SubnetId": network.subnets[0], "AllocationId": "eipalloc-00000000000000000"},
        "InvalidAllocationID.NotFound",
        ERRORS,
    ),
    Refusal(
        "a nonexistent NAT gateway",
        "delete_nat_gateway",
        {"NatGatewayId": "nat-00000000000000000"},
        "NatGatewayNotFound",
        ERRORS,
    ),
]

GROUPS = [
    Refusal(
        "a nonexistent VPC",
        "create_security_group",
        {"GroupName": "g", "Description": "d", "VpcId": "vpc-00000000000000000"},
        "InvalidVpcID.NotFound",
        ERRORS,
    ),
    Refusal(
        "a name in use",
        "create_security_group",
        lambda network: {"GroupName": "nodes", "Description": "d", "VpcId": network.vpc},
        "InvalidGroup.Duplicate",
        ERRORS,
    ),
    Refusal(
        "a name that looks like an id",
        "create_security_group",
        lambda network: {"GroupName": "sg-nodes", "Description": "d", "VpcId": network.vpc},
        "InvalidParameterValue",
        f"{API}/API_CreateSecurityGroup.html",
    ),
    Refusal(
        "a description with a non-ASCII dash",
        "create_security_group",
        lambda network: {"GroupName": "g", "Description": "nodes \u2013 all", "VpcId": network.vpc},
        "InvalidParameterValue",
        f"{API}/API_CreateSecurityGroup.html",
    ),
    Refusal(
        "a group that an endpoint uses",
        "delete_security_group",
        lambda network: {"GroupId": network.group},
        "DependencyViolation",
        f"{API}/API_DeleteSecurityGroup.html",
        "has a dependent object",
    ),
    Refusal(
        "the default security group",
        "delete_security_group",
        lambda network: {"GroupId": network.default_group},
        "CannotDelete",
        f"{API}/API_DeleteSecurityGroup.html",
    ),
    Refusal(
        "a nonexistent security group",
        "delete_security_group",
        {"GroupId": "sg-00000000000000000"},
        "InvalidGroup.NotFound",
        ERRORS,
    ),
]

TAGS = [
    Refusal(
        "a reserved tag",
        "create_tags",
        lambda network: {"Resources": [network.vpc], "Tags": [{"Key": "aws:name", "Value": "x"}]},
        "InvalidParameterValue",
        "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Tags.html",
        "reserved for internal use",
    ),
    Refusal(
        "a tag key of 129 characters",
        "create_tags",
        lambda network: {"Resources": [network.vpc], "Tags": [{"Key": "k" * 129, "Value": "x"}]},
        "InvalidParameterValue",
        "https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/Using_Tags.html",
    ),
    Refusal(
        "51 tags",
        "create_tags",
        lambda network: {"Resources": [network.vpc], "Tags": [{"Key": f"k{number}", "Value": "x"} for number in range(51)]},
        "TagLimitExceeded",
        ERRORS,
    ),
    Refusal(
        "a nonexistent NAT gateway",
        "create_tags",
        {"Resources": ["nat-00000000000000000"], "Tags": [{"Key": "a", "Value": "x"}]},
        "NatGatewayNotFound",
        ERRORS,
    ),
    Refusal(
        "flow logs without a role",
        "create_flow_logs",
        lambda network: {"ResourceIds": [network.vpc], "ResourceType": "VPC", "TrafficType": "ALL", "LogGroupName": "g"},
        "InvalidParameter",
        f"{API}/API_CreateFlowLogs.html",
    ),
    Refusal(
        "flow logs of an unknown traffic type",
        "create_flow_logs",
        lambda network: {"ResourceIds": [network.vpc], "ResourceType": "VPC", "TrafficType": "SOME", "LogGroupName": "g"},
        "InvalidParameterValue",
        f"{API}/API_CreateFlowLogs.html",
    ),
]


@pytest.mark.parametrize("refusal", [*NETWORKS, *GROUPS, *TAGS], ids=str)
def test_ec2_rejects_invalid_requests_and_creates_nothing(world_and_network: tuple[World, Network], refusal: Refusal) -> None:
    check_refusal(world_and_network, refusal)
