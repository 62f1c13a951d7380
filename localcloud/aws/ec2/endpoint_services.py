"""Names and endpoint types of the VPC endpoint services that AWS offers.

https://docs.aws.amazon.com/vpc/latest/privatelink/aws-services-privatelink-support.html
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from moto.ec2.models.vpcs import AWS_ENDPOINT_SERVICES

from localcloud.aws.call import Call
from localcloud.aws.ec2.filters import filter_items, select_page
from localcloud.aws.ec2.refusals import stop_dry_run
from localcloud.aws.ec2.zones import list_zones
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import get_state, operation

GATEWAY_SERVICES = ("s3", "dynamodb")  # https://docs.aws.amazon.com/vpc/latest/privatelink/gateway-endpoints.html
_SERVICES = frozenset(AWS_ENDPOINT_SERVICES)


@dataclass
class NotOffered:
    """Endpoint services that a Region, or some of its zones, do not offer. Tests add entries to emulate such gaps in
    AWS."""

    in_region: set[str] = field(default_factory=set)
    in_zones: set[tuple[str, str]] = field(default_factory=set)
    """Pairs of a service and the name of a zone."""


def find_unoffered_services(backend: Any) -> NotOffered:
    return get_state(backend, NotOffered)


def check_service(backend: Any, name: str, kind: str) -> None:
    """Check that the service exists in the region and has endpoints of that type."""
    prefix = f"com.amazonaws.{backend.region_name}."
    short = name.removeprefix(prefix)
    own = [item for item in backend.configurations.values() if item.service_name == name]
    if not own and (not name.startswith(prefix) or short not in _SERVICES - find_unoffered_services(backend).in_region):
        raise _build_unknown_service_error(name)
    kinds = ["Gateway", "Interface"] if short in GATEWAY_SERVICES else ["Interface"]
    if own:
        kinds = [own[0].service_type] if hasattr(own[0], "service_type") else ["Interface", "GatewayLoadBalancer"]
    if kind not in kinds:
        raise AwsError(
            "InvalidParameter", f"Endpoint type ({kind}) does not match available service types ([{', '.join(kinds)}])."
        )


def check_zones(backend: Any, name: str, subnet_ids: Sequence[str]) -> None:
    """Check that the service offers endpoints in the zones of the subnets.

    https://repost.aws/knowledge-center/interface-endpoint-availability-zone
    """
    short = name.rpartition(f".{backend.region_name}.")[2]
    for subnet_id in subnet_ids:
        if (short, backend.get_subnet(subnet_id).availability_zone) in find_unoffered_services(backend).in_zones:
            raise AwsError(
                "InvalidParameter",
                f"The VPC endpoint service {name} does not support the availability zone of the subnet: {subnet_id}.",
            )


def build_private_dns_name(name: str, region: str) -> str:
    """Return the DNS name that an endpoint with private DNS overrides in its VPC."""
    short = name.rpartition(f".{region}.")[2]
    if short.startswith("ecr."):
        part = short.removeprefix("ecr.")
        return f"{'*.' if part == 'dkr' else ''}{part}.ecr.{region}.amazonaws.com"
    return f"{short}.{region}.amazonaws.com"


@operation("ec2", "DescribeVpcEndpointServices")
def describe_vpc_endpoint_services(call: Call) -> dict[str, Any]:
    """https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeVpcEndpointServices.html"""
    details = _describe_services(call.backend)
    names = call.params.get("ServiceNames", [])
    for name in names:
        if name not in {service["ServiceName"] for service in details}:
            raise _build_unknown_service_error(name)
    matching = filter_items(
        [service for service in details if not names or service["ServiceName"] in names],
        call.params.get("Filters"),
        {
            "owner": lambda service: service["Owner"],
            "service-name": lambda service: service["ServiceName"],
            "service-region": lambda service: service["ServiceRegion"],
            "service-type": lambda service: [kind["ServiceType"] for kind in service["ServiceType"]],
        },
        lambda service: {tag["Key"]: tag["Value"] for tag in service["Tags"]},
    )
    stop_dry_run(call)
    matching, token = select_page(matching, call.params)
    return {"ServiceNames": sorted({service["ServiceName"] for service in matching}), "ServiceDetails": matching, **token}


def _describe_services(backend: Any) -> list[dict[str, Any]]:
    """Return one entry per service and endpoint type. As on AWS, S3 and DynamoDB therefore have two entries each."""
    details = [
        _describe_service(backend, f"com.amazonaws.{backend.region_name}.{short}", kind, "amazon", short)
        for short in sorted(_SERVICES - find_unoffered_services(backend).in_region)
        for kind in (("Gateway", "Interface") if short in GATEWAY_SERVICES else ("Interface",))
    ]
    details += [
        _describe_service(backend, item.service_name, getattr(item, "service_type", "Interface"), backend.account_id, "")
        for item in backend.configurations.values()
    ]
    return details


def _describe_service(backend: Any, name: str, kind: str, owner: str, short: str) -> dict[str, Any]:
    zones = [
        zone for zone in list_zones(backend.region_name) if (short, zone.name) not in find_unoffered_services(backend).in_zones
    ]
    private = {"PrivateDnsName": build_private_dns_name(name, backend.region_name)} if kind == "Interface" and short else {}
    return {
        "ServiceName": name,
        "ServiceId": f"vpce-svc-{hashlib.sha256(f'{name} {kind}'.encode()).hexdigest()[:17]}",
        "ServiceType": [{"ServiceType": kind}],
        "ServiceRegion": backend.region_name,
        "AvailabilityZones": [zone.name for zone in zones],
        "AvailabilityZoneIds": [zone.zone_id for zone in zones],
        "Owner": owner,
        "BaseEndpointDnsNames": [f"{short or name}.{backend.region_name}.vpce.amazonaws.com"],
        **private,
        "VpcEndpointPolicySupported": True,
        "AcceptanceRequired": owner != "amazon",
        "ManagesVpcEndpoints": False,
        "Tags": [],
    }


def _build_unknown_service_error(name: str) -> AwsError:
    return AwsError("InvalidServiceName", f"The Vpc Endpoint Service '{name}' does not exist")
