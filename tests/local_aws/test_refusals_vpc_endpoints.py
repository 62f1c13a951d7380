"""VPC endpoint calls that EC2 rejects."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.local_aws.ec2_refusals import API, ERRORS
from tests.local_aws.ec2_world import World
from tests.local_aws.refusals import Refusal
from tests.local_aws.vpc_world import LINK, S3, STS, Network, check_refusal, shared_network


@pytest.fixture(scope="module")
def world_and_network() -> Iterator[tuple[World, Network]]:
    with shared_network() as network:
        yield network


def make_endpoint_params(**changes: Any) -> Any:
    def params(network: Network) -> dict[str, Any]:
        base = {"VpcId": network.vpc, "ServiceName": "com.amazonaws.us-west-2.logs", "VpcEndpointType": "Interface"}
        return {**base, **{name: value(network) if callable(value) else value for name, value in changes.items()}}

    return params


ENDPOINTS = [
    Refusal(
        "a nonexistent service",
        "create_vpc_endpoint",
        make_endpoint_params(ServiceName="com.amazonaws.us-west-2.nothing"),
        "InvalidServiceName",
        ERRORS,
        "does not exist",
    ),
    Refusal(
        "a service of another region",
        "create_vpc_endpoint",
        make_endpoint_params(ServiceName="com.amazonaws.eu-west-1.logs"),
        "InvalidServiceName",
        ERRORS,
    ),
    Refusal(
        "a gateway endpoint for an interface-only service",
        "create_vpc_endpoint",
        make_endpoint_params(VpcEndpointType="Gateway"),
        "InvalidParameter",
        f"{LINK}/gateway-endpoints.html",
        "does not match available service types ([Interface])",
    ),
    Refusal(
        "private DNS for a gateway endpoint",
        "create_vpc_endpoint",
        make_endpoint_params(ServiceName=S3, VpcEndpointType="Gateway", PrivateDnsEnabled=True),
        "InvalidParameter",
        f"{API}/API_CreateVpcEndpoint.html",
    ),
    Refusal(
        "a second gateway endpoint for a route table",
        "create_vpc_endpoint",
        make_endpoint_params(ServiceName=S3, VpcEndpointType="Gateway", RouteTableIds=lambda network: [network.table]),
        "RouteAlreadyExists",
        ERRORS,
    ),
    Refusal(
        "two subnets in one zone",
        "create_vpc_endpoint",
        make_endpoint_params(SubnetIds=lambda network: [network.subnets[0], network.subnets[0]]),
        "DuplicateSubnetsInSameZone",
        ERRORS,
    ),
    Refusal(
        "private DNS in a VPC without DNS host names",
        "create_vpc_endpoint",
        make_endpoint_params(VpcId=lambda network: network.quiet_vpc),
        "InvalidParameter",
        f"{LINK}/create-interface-endpoint.html",
        "enableDnsSupport and enableDnsHostnames",
    ),
    Refusal(
        "a private DNS name in use",
        "create_vpc_endpoint",
        make_endpoint_params(ServiceName=STS),
        "InvalidParameter",
        f"{LINK}/create-interface-endpoint.html",
        "conflicting DNS domain",
    ),
    Refusal(
        "a security group of another VPC",
        "create_vpc_endpoint",
        make_endpoint_params(
            VpcId=lambda network: network.quiet_vpc, SecurityGroupIds=lambda network: [network.group], PrivateDnsEnabled=False
        ),
        "InvalidGroup.NotFound",
        ERRORS,
    ),
    Refusal(
        "a policy that is not JSON",
        "create_vpc_endpoint",
        make_endpoint_params(PolicyDocument="allow everything"),
        "InvalidPolicyDocument",
        f"{LINK}/vpc-endpoints-access.html",
    ),
    Refusal(
        "a nonexistent endpoint",
        "describe_vpc_endpoints",
        {"VpcEndpointIds": ["vpce-00000000000000000"]},
        "InvalidVpcEndpointId.NotFound",
        ERRORS,
    ),
]


@pytest.mark.parametrize("refusal", ENDPOINTS, ids=str)
def test_ec2_rejects_invalid_requests_and_creates_nothing(world_and_network: tuple[World, Network], refusal: Refusal) -> None:
    check_refusal(world_and_network, refusal)
