"""Rules for a new or existing VPC and its zones."""

from collections.abc import Iterator
from ipaddress import IPv4Network

from infra.config.messages import all_of, shown
from infra.config.problems import Problem
from infra.facts.model import Facts
from infra.plan.placement import MAXIMUM_ZONES, minimum_zones
from infra.settings.network import SERVICE_CIDR
from infra.settings.stack import Settings
from infra.validation import ids
from infra.validation.cidrs import parsed

LARGEST, SMALLEST = 16, 20
"""Minimum and maximum prefix length of a new VPC. AWS allows no larger VPC. In a smaller VPC, a private subnet (1/16 of
the VPC) would have no room for a pool."""

# https://docs.aws.amazon.com/vpc/latest/userguide/vpc-cidr-blocks.html
PRIVATE = tuple(IPv4Network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10"))


def new_or_existing(settings: Settings) -> Iterator[Problem]:
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
            where = " in at least two zones" if settings.is_eks else ""
            yield Problem("network.subnetIds", f"required with vpcId. List private subnets of the VPC{where}.")
    elif network.subnet_ids:
        yield Problem("network.vpcId", "required with subnetIds. Set the VPC of the subnets.")


def ids_of_network(settings: Settings) -> Iterator[Problem]:
    network = settings.network
    if network.vpc_id is not None:
        yield from ids.check("network.vpcId", "vpc", network.vpc_id)
    for index, one in enumerate(network.subnet_ids):
        where = f"network.subnetIds[{index}]"
        yield from ids.check(where, "subnet", one)
        if one in network.subnet_ids[:index]:
            yield Problem(where, f"{shown(one)} is listed twice. Remove one.")


def cidr(settings: Settings) -> Iterator[Problem]:
    text, where = settings.network.cidr, "network.cidr"
    if text is None:
        return
    block = parsed(text, "10.0.0.0/16")
    if isinstance(block, str):
        yield Problem(where, block)
        return
    if not LARGEST <= block.prefixlen <= SMALLEST:
        yield Problem(where, f"{shown(text)} is a /{block.prefixlen}. Use a /{LARGEST} to /{SMALLEST}.")
    if not any(block.subnet_of(private) for private in PRIVATE):
        yield Problem(where, f"{shown(text)} is not a private range. Choose from {all_of(str(one) for one in PRIVATE)}.")
    if settings.is_eks and block.overlaps(IPv4Network(SERVICE_CIDR)):
        yield Problem(where, f"{shown(text)} overlaps {SERVICE_CIDR}, the CIDR of Kubernetes services. Choose another.")


def zones(settings: Settings) -> Iterator[Problem]:
    network, where = settings.network, "network.zones"
    count = network.zone_count
    least = minimum_zones(settings)
    if network.zones is not None and not least <= (count or 0) <= MAXIMUM_ZONES:
        needed = f"{'EKS' if settings.is_eks else 'a cluster'} needs at least {least}"
        yield Problem(where, f"{count or 0} is out of range: {needed}, and this program supports at most {MAXIMUM_ZONES}")
    for index, name in enumerate(network.zone_names):
        if name in network.zone_names[:index]:
            yield Problem(f"{where}[{index}]", f"{shown(name)} is listed twice. Remove one.")


def route_out(settings: Settings) -> Iterator[Problem]:
    network = settings.network
    if network.nat_gateways == "none" and not network.has_interface_endpoints and not network.is_existing:
        yield Problem("network.natGateways", '"none" leaves nodes without a route to AWS. Add interfaceEndpoints: true.')


def zones_exist(settings: Settings, facts: Facts) -> Iterator[Problem]:
    names = [zone.name for zone in facts.zones]
    for index, name in enumerate(settings.network.zone_names):
        if name not in names:
            not_there = f"{shown(name)} is not a zone of {facts.region} that EKS can use"
            yield Problem(f"network.zones[{index}]", f"{not_there}. Choose from {all_of(names)}.")
    count = settings.network.zones
    if isinstance(count, int) and minimum_zones(settings) <= count <= MAXIMUM_ZONES and count > len(names):
        yield Problem("network.zones", f"is {count}, but EKS can use only {len(names)} in {facts.region}: {all_of(names)}")
