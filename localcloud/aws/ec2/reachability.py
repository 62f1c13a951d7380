"""Determines which services an instance can reach: DNS, route table, security groups and VPC endpoints.

https://docs.aws.amazon.com/vpc/latest/privatelink/create-interface-endpoint.html,
https://docs.aws.amazon.com/vpc/latest/privatelink/gateway-endpoints.html,
https://docs.aws.amazon.com/vpc/latest/userguide/nat-gateway-troubleshooting.html

The functions only read moto's objects and copy each collection first, so they may run without the gateway's lock.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import Any

from localcloud.aws.ec2.vpc_endpoints import GATEWAY, INTERFACE
from localcloud.aws.policy_evaluation import Request, allows, parse_document

HTTPS = 443
ANYWHERE = IPv4Network("0.0.0.0/0")


@dataclass(frozen=True)
class Origin:
    """An instance as the source of a connection."""

    ec2: Any
    vpc: Any
    subnet: Any
    address: IPv4Address
    public_address: str | None
    groups: tuple[Any, ...]

    @property
    def group_ids(self) -> set[str]:
        return {group.id for group in self.groups}


def build_origin(ec2: Any, instance: Any) -> Origin:
    interface = instance.nics[0]
    subnet = interface.subnet
    return Origin(
        ec2,
        ec2.vpcs[subnet.vpc_id],
        subnet,
        IPv4Address(interface.private_ip_address),
        interface.public_ip,
        tuple(interface.group_set),
    )


def find_instance_by_address(ec2: Any, vpc_id: str, address: str) -> Any | None:
    """Return the instance with this private address in the VPC, if any."""
    interfaces = (eni for eni in list(ec2.enis.values()) if eni.instance is not None and eni.subnet.vpc_id == vpc_id)
    return next((eni.instance for eni in interfaces if eni.private_ip_address == address), None)


def find_service_problem(origin: Origin, service: str, host: str) -> str:
    """Return why the instance cannot reach an AWS service such as `ecr.api`, or "" if the instance can. The message contains the
    host."""
    reason = _find_network_problem(origin, service)
    return f"{host} cannot be reached from {origin.subnet.id}: {reason}" if reason else ""


def find_host_problem(origin: Origin, host: str) -> str:
    """Return why the instance cannot reach a host on the internet, or "" if the instance can."""
    reason = _find_dns_problem(origin) or _find_internet_problem(origin)
    return f"{host} cannot be reached from {origin.subnet.id}: {reason}" if reason else ""


def can_resolve_private_names(origin: Origin) -> bool:
    """Return whether the VPC's resolver returns private addresses for endpoints and for the Kubernetes API.

    https://docs.aws.amazon.com/vpc/latest/userguide/AmazonDNS-concepts.html
    """
    return bool(origin.vpc.enable_dns_support and origin.vpc.enable_dns_hostnames)


def find_source_address(origin: Origin) -> str | None:
    """Return the public source address of the instance's connections; None without a route to the internet."""
    route = _find_default_route(origin.ec2, origin.subnet)
    if route is None:
        return None
    if route.nat_gateway is not None:
        return next((str(address["PublicIp"]) for address in route.nat_gateway.address_set if "PublicIp" in address), None)
    return origin.public_address


def has_allowing_rule(
    rules: Iterable[Any], *, groups: set[str], addresses: Iterable[IPv4Address], prefix_list: str | None = None
) -> bool:
    """Return whether a rule allows HTTPS to or from one of the groups, the addresses or the prefix list."""
    return any(_allows_https(rule, groups, list(addresses), prefix_list) for rule in list(rules))


def has_allow_all_rule(rules: Iterable[Any]) -> bool:
    return any(_covers_https(rule) and rule.cidr_ipv4 == str(ANYWHERE) for rule in list(rules))


def list_egress_rules(origin: Origin) -> Iterator[Any]:
    for group in origin.groups:
        yield from list(group.egress_rules)


def _find_network_problem(origin: Origin, service: str) -> str:
    if problem := _find_dns_problem(origin):
        return problem
    interface = _find_interface_endpoint(origin, service)
    if interface is not None:
        return _find_interface_problem(origin, interface)
    gateway = _find_gateway_endpoint(origin, service)
    if gateway is not None:
        return _find_gateway_problem(origin, gateway)
    missing = f"{origin.vpc.id} has no endpoint for {service}"
    unused = next((endpoint for endpoint in _find_endpoints(origin, service) if endpoint.vpc_endpoint_type == INTERFACE), None)
    if unused is not None:
        missing = (
            f"private DNS names are disabled for {unused.id}, or {origin.vpc.id} does not enable DNS support and DNS hostnames"
        )
    reason = _find_internet_problem(origin)
    return f"{missing}, and {reason}" if reason else ""


def _find_dns_problem(origin: Origin) -> str:
    return "" if origin.vpc.enable_dns_support else f"DNS support is disabled in {origin.vpc.id}, so no name can be resolved"


def _find_endpoints(origin: Origin, service: str) -> list[Any]:
    """Return the VPC's available endpoints for the service. Compare only the end of the endpoints' service names,
    because the prefix depends on the partition."""
    suffix = f".{origin.ec2.region_name}.{service}"
    return [
        endpoint
        for endpoint in list(origin.ec2.vpc_end_points.values())
        if endpoint.vpc_id == origin.vpc.id and endpoint.service_name.endswith(suffix) and endpoint.state == "available"
    ]


def _find_interface_endpoint(origin: Origin, service: str) -> Any | None:
    """Return the interface endpoint to which the service's host name resolves in the VPC, if any."""
    if not can_resolve_private_names(origin):
        return None
    endpoints = (endpoint for endpoint in _find_endpoints(origin, service) if endpoint.vpc_endpoint_type == INTERFACE)
    return next((endpoint for endpoint in endpoints if endpoint.private_dns_enabled and endpoint.network_interface_ids), None)


def _find_gateway_endpoint(origin: Origin, service: str) -> Any | None:
    table = _find_route_table(origin.ec2, origin.subnet)
    endpoints = (endpoint for endpoint in _find_endpoints(origin, service) if endpoint.vpc_endpoint_type == GATEWAY)
    return next((endpoint for endpoint in endpoints if table is not None and table.id in endpoint.route_table_ids), None)


def _find_interface_problem(origin: Origin, endpoint: Any) -> str:
    ec2 = origin.ec2
    groups = [
        group for group_id in endpoint.security_group_ids if (group := ec2.get_security_group_from_id(group_id)) is not None
    ]
    addresses = [IPv4Address(ec2.enis[eni].private_ip_address) for eni in endpoint.network_interface_ids if eni in ec2.enis]
    let_in = [rule for group in groups for rule in list(group.ingress_rules)]
    if not has_allowing_rule(let_in, groups=origin.group_ids, addresses=[origin.address]):
        return f"the security groups of {endpoint.id} do not allow ingress from the node on port {HTTPS}"
    if not has_allowing_rule(list_egress_rules(origin), groups={group.id for group in groups}, addresses=addresses):
        return f"the node's security groups do not allow egress to {endpoint.id} on port {HTTPS}"
    return ""


def _find_gateway_problem(origin: Origin, endpoint: Any) -> str:
    prefix_list = endpoint.destination_prefix_list_id
    if has_allow_all_rule(list_egress_rules(origin)) or has_allowing_rule(
        list_egress_rules(origin), groups=set(), addresses=[], prefix_list=prefix_list
    ):
        return ""
    return f"the node's security groups do not allow egress to the prefix list of {endpoint.id} on port {HTTPS}"


def find_policy_problem(origin: Origin, service: str, host: str, request: Request) -> str:
    """Return why the policy of the service's endpoint denies the request, or "" if the policy allows the request."""
    endpoint = _find_interface_endpoint(origin, service) or _find_gateway_endpoint(origin, service)
    if endpoint is None or not endpoint.policy_document or allows(request, parse_document(endpoint.policy_document)):
        return ""
    return f"{host}: the policy of {endpoint.id} does not allow {request.action} on {request.resource}"


def _find_internet_problem(origin: Origin) -> str:
    route = _find_default_route(origin.ec2, origin.subnet)
    if route is None:
        return f"{origin.subnet.id} has no route to the internet"
    gateway = route.nat_gateway
    if gateway is not None and gateway.state != "available":
        return f"{gateway.id} is {gateway.state}"
    if gateway is not None and not is_public(origin.ec2, gateway.subnet_id):
        return f"{gateway.id} is in a subnet without a route to an internet gateway"
    if gateway is None and _is_internet_gateway(route) and not origin.public_address:
        return f"the node has no public address in public subnet {origin.subnet.id}"
    if not has_allow_all_rule(list_egress_rules(origin)):
        return f"the node's security groups do not allow egress to {ANYWHERE} on port {HTTPS}"
    return ""


def is_public(ec2: Any, subnet_id: str) -> bool:
    """Return whether the subnet has a route to an internet gateway."""
    route = _find_default_route(ec2, ec2.get_subnet(subnet_id))
    return route is not None and _is_internet_gateway(route)


def _is_internet_gateway(route: Any) -> bool:
    return str(getattr(route.gateway, "id", "")).startswith("igw-")


def _find_default_route(ec2: Any, subnet: Any) -> Any | None:
    """Return the default route. Callers assume that default routes to targets other than NAT and internet gateways
    reach the internet."""
    table = _find_route_table(ec2, subnet)
    routes = table.routes if table is not None else []
    return next((route for route in routes if route.destination_cidr_block == str(ANYWHERE)), None)


def _find_route_table(ec2: Any, subnet: Any) -> Any | None:
    """Return the subnet's route table: its own, or the main table of its VPC."""
    tables = [table for table in list(ec2.route_tables.values()) if table.vpc_id == subnet.vpc_id]
    own = [table for table in tables if subnet.id in list(table._associations.values())]
    return next(iter([*own, *(table for table in tables if table.main_association_id is not None)]), None)


def _allows_https(rule: Any, groups: set[str], addresses: list[IPv4Address], prefix_list: str | None) -> bool:
    if not _covers_https(rule):
        return False
    if rule.source_group.get("GroupId") in groups or (prefix_list is not None and rule.prefix_list_id == prefix_list):
        return True
    return bool(rule.cidr_ipv4) and any(address in IPv4Network(rule.cidr_ipv4) for address in addresses)


def _covers_https(rule: Any) -> bool:
    if rule.ip_protocol == "-1":
        return True
    return rule.ip_protocol == "tcp" and (rule.from_port or 0) <= HTTPS <= (rule.to_port or HTTPS)
