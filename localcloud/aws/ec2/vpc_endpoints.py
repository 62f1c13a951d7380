"""VPC endpoints: interface endpoints own network interfaces in their subnets, gateway endpoints own routes.

https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateVpcEndpoint.html
"""

from collections.abc import Sequence
from typing import Any

from moto.ec2.models.vpcs import VPCEndPoint
from moto.ec2.utils import create_dns_entries, random_vpc_ep_id

from localcloud.aws import durations
from localcloud.aws.ec2 import endpoint_services, interfaces, tagging
from localcloud.aws.ec2.refusals import build_missing_parameter_error
from localcloud.aws.errors import AwsError

INTERFACE = "Interface"
GATEWAY = "Gateway"
REQUESTER = "amazon-aws"


class Endpoint(VPCEndPoint):
    """moto's VPC endpoint, extended with the members that moto lacks."""

    ip_address_type: str
    dns_options: dict[str, str] | None

    def find_subnet_id(self, interface_id: str) -> str:
        return str(self.ec2_backend.enis[interface_id].subnet.id)


def find_endpoint(backend: Any, endpoint_id: str) -> Any:
    endpoint = backend.vpc_end_points.get(endpoint_id)
    if endpoint is None:
        raise AwsError("InvalidVpcEndpointId.NotFound", f"The Vpc Endpoint Id '{endpoint_id}' does not exist")
    return endpoint


def check_interface(backend: Any, vpc: Any, params: dict[str, Any], private_dns: bool) -> None:
    """Check the parameters of an interface endpoint.

    Its subnets must be in the VPC and in different zones, and its security groups must be in the VPC. Private DNS
    requires DNS support and DNS hostnames in the VPC, and no other endpoint may have the same DNS name.
    """
    if params.get("RouteTableIds"):
        raise AwsError("InvalidParameter", "Route table IDs are not supported for Interface type VPC Endpoints.")
    check_subnets(backend, vpc.id, [], params.get("SubnetIds", []))
    interfaces.find_groups(backend, vpc.id, params.get("SecurityGroupIds", []))
    if not private_dns:
        return
    if not (vpc.enable_dns_support and vpc.enable_dns_hostnames):
        raise AwsError(
            "InvalidParameter",
            f"Enabling private DNS requires both enableDnsSupport and enableDnsHostnames VPC attributes set to true for {vpc.id}",
        )
    for other in backend.vpc_end_points.values():
        if (other.vpc_id, other.service_name) == (vpc.id, params["ServiceName"]) and other.private_dns_enabled:
            domain = endpoint_services.build_private_dns_name(params["ServiceName"], backend.region_name)
            raise AwsError(
                "InvalidParameter",
                "private-dns-enabled cannot be set because there is already a conflicting DNS domain "
                f"for {domain} in the VPC {vpc.id}",
            )


def check_subnets(backend: Any, vpc_id: str, present: Sequence[str], added: Sequence[str]) -> None:
    zones = {backend.get_subnet(subnet_id).availability_zone for subnet_id in present}
    for subnet_id in added:
        subnet = backend.get_subnet(subnet_id)
        if subnet.vpc_id != vpc_id:
            raise AwsError("InvalidParameter", f"The subnet ID '{subnet_id}' is not in the VPC '{vpc_id}'")
        if subnet.availability_zone in zones:
            raise AwsError(
                "DuplicateSubnetsInSameZone", f"Found another VPC endpoint subnet in the availability zone of {subnet_id}."
            )
        zones.add(subnet.availability_zone)


def check_gateway(backend: Any, vpc: Any, params: dict[str, Any]) -> None:
    if params.get("SubnetIds"):
        raise AwsError("InvalidParameter", "Subnet IDs are not supported for Gateway type VPC Endpoints.")
    if params.get("SecurityGroupIds"):
        raise AwsError("InvalidParameter", "Security group IDs are not supported for Gateway type VPC Endpoints.")
    if params.get("PrivateDnsEnabled"):
        raise AwsError(
            "InvalidParameter", "Private DNS can't be enabled because it is not supported for Gateway type VPC Endpoints."
        )
    check_route_tables(backend, vpc.id, params["ServiceName"], params.get("RouteTableIds", []))


def check_route_tables(backend: Any, vpc_id: str, service: str, ids: Sequence[str]) -> None:
    prefix_list = find_prefix_list(backend, service)
    for table_id in ids:
        table = backend.get_route_table(table_id)
        if table.vpc_id != vpc_id:
            raise AwsError("InvalidParameter", f"Route table {table_id} and the VPC {vpc_id} belong to different networks")
        lists = [route.destination_prefix_list for route in table._routes.values() if route.destination_prefix_list is not None]
        if any(present.id == prefix_list for present in lists):
            raise AwsError(
                "RouteAlreadyExists", f"route table {table_id} already has a route with destination-prefix-list-id {prefix_list}"
            )


def find_prefix_list(backend: Any, service: str) -> str | None:
    for prefix_list in backend.managed_prefix_lists.values():
        if prefix_list.prefix_list_name == service:
            return str(prefix_list.id)
    return None


def create(backend: Any, vpc: Any, kind: str, params: dict[str, Any], private_dns: bool, tags: dict[str, str]) -> Any:
    """Create the endpoint with its interfaces or routes, in state pending."""
    endpoint_id, service = random_vpc_ep_id(), params["ServiceName"]
    group_ids = list(params.get("SecurityGroupIds", []))
    if kind == INTERFACE and not group_ids:
        group_ids = [backend.get_default_security_group(vpc.id).id]
    is_gateway = kind == GATEWAY
    endpoint: Any = Endpoint(  # type: ignore[abstract]
        backend,
        endpoint_id,
        vpc.id,
        service,
        kind,
        params.get("PolicyDocument"),
        [],
        [],
        [],
        dns_entries=[] if is_gateway else [create_dns_entries(service, endpoint_id)],
        client_token=params.get("ClientToken"),
        security_group_ids=[] if is_gateway else group_ids,
        tags=tags,
        private_dns_enabled=private_dns,
        destination_prefix_list_id=find_prefix_list(backend, service) if is_gateway else None,
    )
    endpoint.ip_address_type = params.get("IpAddressType", "ipv4")
    endpoint.dns_options = None if is_gateway else {"DnsRecordIpType": "ipv4", **params.get("DnsOptions", {})}
    backend.vpc_end_points[endpoint_id] = endpoint
    add_subnets(endpoint, params.get("SubnetIds", []))
    add_routes(endpoint, params.get("RouteTableIds", []))
    durations.schedule(
        endpoint, "state", "pending", "available", "ec2-vpc-endpoint-gateway" if is_gateway else "ec2-vpc-endpoint-interface"
    )
    return endpoint


def add_subnets(endpoint: Any, ids: Sequence[str]) -> None:
    backend = endpoint.ec2_backend
    groups = interfaces.find_groups(backend, endpoint.vpc_id, endpoint.security_group_ids)
    for subnet_id in ids:
        interface = interfaces.create(
            backend,
            backend.get_subnet(subnet_id),
            groups,
            description=f"VPC Endpoint Interface {endpoint.id}",
            interface_type="vpc_endpoint",
            requester=REQUESTER,
        )
        endpoint.network_interface_ids.append(interface.id)
        endpoint.subnet_ids.append(subnet_id)


def remove_subnets(endpoint: Any, ids: Sequence[str]) -> None:
    for subnet_id in ids:
        if subnet_id not in endpoint.subnet_ids:
            raise AwsError("InvalidParameter", f"The subnet ID '{subnet_id}' is not used by the VPC Endpoint {endpoint.id}")
        endpoint.subnet_ids.remove(subnet_id)
        gone = [
            interface_id for interface_id in endpoint.network_interface_ids if endpoint.find_subnet_id(interface_id) == subnet_id
        ]
        for interface_id in gone:
            endpoint.network_interface_ids.remove(interface_id)
            interfaces.delete(endpoint.ec2_backend, interface_id)


def add_routes(endpoint: Any, ids: Sequence[str]) -> None:
    for table_id in ids:
        endpoint.ec2_backend.create_route(
            table_id, None, gateway_id=endpoint.id, destination_prefix_list_id=endpoint.destination_prefix_list_id
        )
        endpoint.route_table_ids.append(table_id)


def remove_routes(endpoint: Any, ids: Sequence[str]) -> None:
    backend = endpoint.ec2_backend
    for table_id in ids:
        if table_id not in endpoint.route_table_ids:
            raise AwsError("InvalidRouteTableId.NotFound", f"The routeTable ID '{table_id}' does not exist")
        endpoint.route_table_ids.remove(table_id)
        if table_id in backend.route_tables:
            backend.delete_route(table_id, None, destination_prefix_list_id=endpoint.destination_prefix_list_id)


def change_security_groups(endpoint: Any, added: Sequence[str], removed: Sequence[str]) -> None:
    backend = endpoint.ec2_backend
    remaining = [group_id for group_id in endpoint.security_group_ids if group_id not in removed]
    group_ids = [*remaining, *(group_id for group_id in added if group_id not in remaining)]
    groups = interfaces.find_groups(backend, endpoint.vpc_id, group_ids)
    if not groups:
        raise build_missing_parameter_error("SecurityGroupIds: an interface endpoint needs at least one security group")
    endpoint.security_group_ids = group_ids
    for interface_id in endpoint.network_interface_ids:
        backend.enis[interface_id]._group_set = list(groups)


def delete(endpoint: Any) -> None:
    """Set the state to deleting and remove the routes now.

    After the emulated delay, remove the endpoint and its interfaces.
    """
    remove_routes(endpoint, list(endpoint.route_table_ids))
    failed = durations.make_failure_handler(endpoint, "state", "failed")
    durations.schedule(
        endpoint, "state", "deleting", "deleted", "ec2-vpc-endpoint-delete", then=lambda: _remove_endpoint(endpoint), fail=failed
    )


def _remove_endpoint(endpoint: Any) -> None:
    backend = endpoint.ec2_backend
    for interface_id in endpoint.network_interface_ids:
        interfaces.delete(backend, interface_id)
    backend.vpc_end_points.pop(endpoint.id, None)
    tagging.delete_resource_tags(backend, endpoint.id)
