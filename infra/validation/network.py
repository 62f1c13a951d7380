"""Rules for a new or existing VPC, its zones and its interface endpoints."""

from collections.abc import Iterator
from ipaddress import IPv4Network

from infra.config.messages import format_value, join_with_and
from infra.config.problems import Problem, create_warning
from infra.facts.model import Facts
from infra.facts.queries import Query
from infra.plan.aws_services import GUESSED_NAMES, list_required_endpoints, select_essential_services
from infra.plan.placement import MAXIMUM_ZONES, list_vpc_zones
from infra.settings.network import SERVICE_CIDR
from infra.settings.stack import Settings
from infra.validation.formats import check_id_format, parse_cidr
from infra.validation.registry import EKS, Topic, register_rule

LARGEST, SMALLEST = 16, 20
"""Minimum and maximum prefix length of a new VPC. AWS allows no larger VPC. In a smaller VPC, a private subnet (1/16 of
the VPC) would have no room for a pool."""

_ENDPOINTS = "network.interfaceEndpoints"
_NAT = "Replace interfaceEndpoints with natGateways: one"
_OR_ANOTHER = "or create another stack."

# https://docs.aws.amazon.com/vpc/latest/userguide/vpc-cidr-blocks.html
PRIVATE = tuple(IPv4Network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"))


@register_rule()
def check_vpc_settings(settings: Settings) -> Iterator[Problem]:
    network = settings.network
    if network.is_existing:
        for name, value in (
            ("cidr", network.cidr),
            ("zones", network.zones),
            ("natGateways", network.nat_gateways),
            ("interfaceEndpoints", network.interface_endpoints),
        ):
            if value is not None:
                yield Problem(f"network.{name}", "applies to a new VPC, but vpcId names an existing one. Remove one of them.")
        if not network.subnet_ids:
            where = " in at least two zones" if settings.target.minimum_zones > 1 else ""
            yield Problem("network.subnetIds", f"required with vpcId. List private subnets of the VPC{where}.")
    elif network.subnet_ids:
        yield Problem("network.vpcId", "required with subnetIds. Set the VPC of the subnets.")


@register_rule()
def check_network_ids(settings: Settings) -> Iterator[Problem]:
    network = settings.network
    if network.vpc_id is not None:
        yield from check_id_format("network.vpcId", "vpc", network.vpc_id)
    for index, subnet_id in enumerate(network.subnet_ids):
        where = f"network.subnetIds[{index}]"
        yield from check_id_format(where, "subnet", subnet_id)
        if subnet_id in network.subnet_ids[:index]:
            yield Problem(where, f"{format_value(subnet_id)} is listed twice. Remove one.")


@register_rule()
def check_cidr(settings: Settings) -> Iterator[Problem]:
    text, where = settings.network.cidr, "network.cidr"
    if text is None:
        return
    block = parse_cidr(text, "10.0.0.0/16")
    if isinstance(block, str):
        yield Problem(where, block)
        return
    if not LARGEST <= block.prefixlen <= SMALLEST:
        yield Problem(where, f"{format_value(text)} is a /{block.prefixlen}. Use a /{LARGEST} to /{SMALLEST}.")
    if not any(block.subnet_of(private) for private in PRIVATE):
        yield Problem(where, f"{format_value(text)} is not a private range. Choose from {join_with_and(map(str, PRIVATE))}.")
    if settings.is_eks and block.overlaps(IPv4Network(SERVICE_CIDR)):
        yield Problem(where, f"{format_value(text)} overlaps {SERVICE_CIDR}, the CIDR of Kubernetes services. Choose another.")


@register_rule()
def check_zones_setting(settings: Settings) -> Iterator[Problem]:
    network, where = settings.network, "network.zones"
    count = network.zone_count
    least = settings.target.minimum_zones
    if network.zones is not None and not least <= (count or 0) <= MAXIMUM_ZONES:
        needed = f"{'EKS' if settings.is_eks else 'a cluster'} needs at least {least}"
        yield Problem(where, f"{count or 0} is out of range: {needed}, and this program supports at most {MAXIMUM_ZONES}")
    for index, name in enumerate(network.zone_names):
        if name in network.zone_names[:index]:
            yield Problem(f"{where}[{index}]", f"{format_value(name)} is listed twice. Remove one.")


@register_rule()
def check_private_network_route(settings: Settings) -> Iterator[Problem]:
    network = settings.network
    if network.nat_gateways == "none" and not network.has_interface_endpoints and not network.is_existing:
        yield Problem("network.natGateways", '"none" leaves nodes without a route to AWS. Add interfaceEndpoints: true.')


@register_rule(Topic.TYPES, reads=(Query.ZONES,))
def check_zones_exist(settings: Settings, facts: Facts) -> Iterator[Problem]:
    names = [zone.name for zone in facts.zones]
    for index, name in enumerate(settings.network.zone_names):
        if name not in names:
            not_there = f"{format_value(name)} is not a zone of {facts.region} that EKS can use"
            yield Problem(f"network.zones[{index}]", f"{not_there}. Choose from {join_with_and(names)}.")
    count = settings.network.zones
    if isinstance(count, int) and settings.target.minimum_zones <= count <= MAXIMUM_ZONES and count > len(names):
        yield Problem("network.zones", f"is {count}, but EKS can use only {len(names)} in {facts.region}: {join_with_and(names)}")


# --- interface endpoints: AWS does not offer every service in every Region and zone


@register_rule(
    Topic.ENDPOINT_SERVICES,
    reads=(Query.ENDPOINT_SERVICES,),
    applies=lambda settings: settings.network.has_interface_endpoints and not settings.network.is_existing,
)
def check_endpoint_services(settings: Settings, facts: Facts) -> Iterator[Problem]:
    services = list_required_endpoints(settings)
    if facts.endpoint_services is None:
        if facts.partition not in GUESSED_NAMES:
            reason = f"the names of endpoint services in {facts.partition} could not be listed and cannot be derived"
            yield Problem(_ENDPOINTS, f"{reason}. Allow {facts.caller.arn} to call ec2:DescribeVpcEndpointServices.")
        return
    absent = [service for service in services if service not in facts.endpoint_services]
    if needed := select_essential_services(settings, absent):
        yield Problem(
            _ENDPOINTS, f"{facts.region} has no interface endpoint for {join_with_and(needed)}. {_NAT}, or use another Region."
        )
    elif absent:
        effect = "Nodes can join and run jobs, but Session Manager or container logs do not work."
        yield create_warning(_ENDPOINTS, f"{facts.region} has no interface endpoint for {join_with_and(absent)}. {effect}")
    yield from _check_endpoint_zones(settings, facts, [service for service in services if service not in absent])


def _check_endpoint_zones(settings: Settings, facts: Facts, services: list[str]) -> Iterator[Problem]:
    """Check that AWS offers every endpoint in each zone of the VPC, because each endpoint gets an interface in each
    zone."""
    zones_of = {service: (facts.endpoint_services or {})[service].zones for service in services}
    complete = [zone.name for zone in facts.zones if all(zone.name in zones for zones in zones_of.values())]
    for zone in list_vpc_zones(settings, facts):
        lacking = [service for service, zones in zones_of.items() if zone not in zones]
        if lacking:
            names = settings.network.zone_names
            where = f"network.zones[{names.index(zone)}]" if zone in names else "network.zones"
            fix = f"Choose from {join_with_and(complete)}." if complete else f"{_NAT}."
            yield Problem(where, f"{zone} has no interface endpoint for {join_with_and(lacking)}. {fix}")


# --- an existing cluster cannot leave its VPC and the zones of its control plane:
# https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html


@register_rule(Topic.CHANGES, target=EKS, reads=(Query.EKS_CLUSTER,))
def check_vpc_is_unchanged(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """Reject a changed VPC or CIDR: a cluster cannot move to another VPC, and the CIDR of a VPC cannot change."""
    network, now, own = settings.network, facts.existing.cluster_vpc_id, facts.existing.own_vpc
    if now is None:
        return
    if own is None or own.id != now:
        if network.vpc_id != now:
            yield Problem("network.vpcId", f"must be {now}, because the cluster cannot leave that VPC. Set it, {_OR_ANOTHER}")
    elif network.is_existing:
        there = f"the cluster is in {now}, which this stack created and manages"
        yield Problem("network.vpcId", f"names a VPC, but {there}. Remove vpcId and subnetIds, {_OR_ANOTHER}")
    elif network.new_cidr != own.cidr:
        there = f"but the cluster's VPC has {own.cidr}, which cannot change"
        yield Problem(
            "network.cidr", f"is {format_value(network.new_cidr)}, {there}. Use {format_value(own.cidr)}, {_OR_ANOTHER}"
        )


@register_rule(Topic.CHANGES, target=EKS, reads=(Query.EKS_CLUSTER,))
def check_control_plane_zones(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """Check that there is still a subnet in each zone in which the control plane was created."""
    network, fixed = settings.network, facts.existing.cluster_zones
    missing = [zone for zone in fixed if zone not in list_vpc_zones(settings, facts)]
    if not missing or any(check_vpc_is_unchanged(settings, facts)) or not facts.not_found.isdisjoint(network.subnet_ids):
        return
    there = f"but the control plane is in {join_with_and(fixed)}, which it cannot leave"
    if network.is_existing:
        yield Problem("network.subnetIds", f"contain no subnet in {join_with_and(missing)}, {there}. Add one, {_OR_ANOTHER}")
    elif isinstance(network.zones, int):
        yield Problem("network.zones", f"is {network.zones}, {there}. Set {len(fixed)}, {_OR_ANOTHER}")
    else:
        yield Problem("network.zones", f"omits {join_with_and(missing)}, {there}. Add the missing zones, {_OR_ANOTHER}")
