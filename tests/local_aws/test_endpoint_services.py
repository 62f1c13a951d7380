"""Zones in which endpoint services are available: `plan` reports a problem if and only if EC2 rejects the endpoint."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from infra import validation
from infra.facts.gather import gather_facts
from infra.plan.aws_services import FOR_EKS, find_endpoint_names
from infra.settings.stack import Settings
from localcloud.aws.account import ACCOUNT
from localcloud.aws.call import backend_of
from localcloud.aws.ec2 import endpoint_services
from testkit.aws_clients import REGION, Client
from tests.pure.world import load_settings

ZONE, OTHER = f"{REGION}a", f"{REGION}b"
NETWORK = {"natGateways": "none", "interfaceEndpoints": True, "zones": [ZONE, OTHER]}


pytestmark = pytest.mark.usefixtures("account_credentials")


@pytest.fixture
def ec2(aws: Client) -> Any:
    return aws("ec2")


def settings() -> Settings:
    target = {"kind": "eks", "endpointAccess": {"privateCidrs": ["10.8.0.0/16"]}}
    stack = {"target": target, "platform": {"install": False}, "pools": [], "network": NETWORK}
    return load_settings(stack, region=REGION)


def find_problems() -> list[str]:
    return [str(problem) for problem in validation.run_rules(settings(), gather_facts(settings()))]


def try_endpoint(ec2: Any, service: str, zone: str) -> str:
    """Create an endpoint in a zone. Return EC2's error code, or "" on success."""
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.0.0/24", AvailabilityZone=zone)["Subnet"]["SubnetId"]
    name = f"com.amazonaws.{REGION}.{service}"
    request = {"VpcId": vpc, "ServiceName": name, "VpcEndpointType": "Interface", "PrivateDnsEnabled": False}
    try:
        ec2.create_vpc_endpoint(**request, SubnetIds=[subnet])
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return ""


def test_all_endpoint_services_for_a_private_cluster_are_offered(ec2: Any) -> None:
    assert find_problems() == []
    assert find_endpoint_names(settings(), gather_facts(settings())) == {
        service: f"com.amazonaws.{REGION}.{service}" for service in FOR_EKS
    }
    assert try_endpoint(ec2, "eks-auth", ZONE) == ""


def test_an_endpoint_service_missing_in_a_zone_is_reported_and_rejected(ec2: Any) -> None:
    gaps = endpoint_services.find_unoffered_services(backend_of("ec2", ACCOUNT, REGION))
    gaps.in_zones.add(("eks-auth", ZONE))
    assert find_problems() == [
        f"network.zones[0]: {ZONE} has no interface endpoint for eks-auth. Choose from {OTHER}, {REGION}c and {REGION}d."
    ]
    assert (try_endpoint(ec2, "eks-auth", ZONE), try_endpoint(ec2, "eks-auth", OTHER)) == ("InvalidParameter", "")


def test_an_endpoint_service_missing_in_the_region_is_reported_and_rejected(ec2: Any) -> None:
    endpoint_services.find_unoffered_services(backend_of("ec2", ACCOUNT, REGION)).in_region.add("ec2messages")
    assert [problem.partition(". ")[0] for problem in find_problems()] == [
        f"network.interfaceEndpoints: {REGION} has no interface endpoint for ec2messages"
    ]
    assert "ec2messages" not in find_endpoint_names(settings(), gather_facts(settings()))
    assert try_endpoint(ec2, "ec2messages", ZONE) == "InvalidServiceName"


def test_endpoint_services_can_be_found_by_name_and_type(ec2: Any) -> None:
    def list_types(**params: Any) -> list[tuple[str, str]]:
        details = ec2.describe_vpc_endpoint_services(**params)["ServiceDetails"]
        return [(detail["ServiceName"].rpartition(".")[2], detail["ServiceType"][0]["ServiceType"]) for detail in details]

    s3 = f"com.amazonaws.{REGION}.s3"
    assert list_types(ServiceNames=[s3]) == [("s3", "Gateway"), ("s3", "Interface")]
    assert list_types(ServiceNames=[s3], Filters=[{"Name": "service-type", "Values": ["Gateway"]}]) == [("s3", "Gateway")]
    with pytest.raises(ClientError, match="InvalidServiceName"):
        list_types(ServiceNames=["com.amazonaws.us-west-2.nothing"])
