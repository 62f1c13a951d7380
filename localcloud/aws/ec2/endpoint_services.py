"""VPC endpoint services that AWS offers, by name.

https://docs.aws.amazon.com/vpc/latest/privatelink/aws-services-privatelink-support.html
"""

from typing import Any

from moto.ec2.models.vpcs import AWS_ENDPOINT_SERVICES

from localcloud.aws.errors import AwsError

GATEWAY_SERVICES = ("s3", "dynamodb")  # https://docs.aws.amazon.com/vpc/latest/privatelink/gateway-endpoints.html
_SERVICES = frozenset(AWS_ENDPOINT_SERVICES)


def check(backend: Any, name: str, kind: str) -> None:
    """Check that the service exists in the region and has endpoints of that type."""
    prefix = f"com.amazonaws.{backend.region_name}."
    short = name.removeprefix(prefix)
    own = [item for item in backend.configurations.values() if item.service_name == name]
    if not own and (not name.startswith(prefix) or short not in _SERVICES):
        raise AwsError("InvalidServiceName", f"The Vpc Endpoint Service '{name}' does not exist")
    kinds = ["Gateway", "Interface"] if short in GATEWAY_SERVICES else ["Interface"]
    if own:
        kinds = [own[0].service_type] if hasattr(own[0], "service_type") else ["Interface", "GatewayLoadBalancer"]
    if kind not in kinds:
        raise AwsError(
            "InvalidParameter", f"Endpoint type ({kind}) does not match available service types ([{', '.join(kinds)}])."
        )


def private_dns_name(name: str, region: str) -> str:
    """Return the DNS name that an endpoint with private DNS overrides in its VPC."""
    short = name.rpartition(f".{region}.")[2]
    if short.startswith("ecr."):
        part = short.removeprefix("ecr.")
        return f"{'*.' if part == 'dkr' else ''}{part}.ecr.{region}.amazonaws.com"
    return f"{short}.{region}.amazonaws.com"
