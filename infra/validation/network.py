"""The VPC, new or existing, as far as the stack file tells."""

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
"""Prefix lengths of a new VPC: AWS takes no larger one, and a 16th of a smaller one holds no pool."""

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
                yield Problem(f"network.{name}", "is for a new VPC, but vpcId names an existing one; remove one of them")
        if not network.subnet_ids:
            where = " in at least two zones" if settings.is_eks else ""
            yield Problem("network.subnetIds", f"is missing; name private subnets of the VPC{where}")
    elif network.subnet_ids:
        yield Problem("network.vpcId", "is missing, but subnetIds names subnets; name their VPC")


def ids_of_network(settings: Settings) -> Iterator[Problem]:
    network = settings.network
    if network.vpc_id is not None:
        yield from ids.check("network.vpcId", "vpc", network.vpc_id)
    for index, one in enumerate(network.subnet_ids):
        where = f"network.subnetIds[{index}]"
        yield from ids.check(where, "subnet", one)
        if one in network.subnet_ids[:index]:
            yield Problem(where, f"{shown(one)} is listed twice; remove one")


def cidr(settings: Settings) -> Iterator[Problem]:
    text, where = settings.network.cidr, "network.cidr"
    if text is None:
        return
    block = parsed(text, "10.0.0.0/16")
    if isinstance(block, str):
        yield Problem(where, block)
        return
    if not LARGEST <= block.prefixlen <= SMALLEST:
        yield Problem(where, f"{shown(text)} is a /{block.prefixlen}; write a /{LARGEST} to /{SMALLEST}")
    if not any(block.subnet_of(private) for private in PRIVATE):
        yield Problem(where, f"{shown(text)} is not private; choose from {all_of(str(one) for one in PRIVATE)}")
    if settings.is_eks and block.overlaps(IPv4Network(SERVICE_CIDR)):
        yield Problem(where, f"{shown(text)} overlaps {SERVICE_CIDR}, the addresses of Kubernetes services; choose another")


def zones(settings: Settings) -> Iterator[Problem]:
    network, where = settings.network, "network.zones"
    count = network.zone_count
    least = minimum_zones(settings)
    if network.zones is not None and not least <= (count or 0) <= MAXIMUM_ZONES:
        verb = "names" if isinstance(network.zones, tuple) else "asks for"
        needed = f"EKS needs {least}" if settings.is_eks else f"a cluster needs {least}"
        yield Problem(where, f"{verb} {count or 0}; {needed}, and this program uses at most {MAXIMUM_ZONES}")
    for index, name in enumerate(network.zone_names):
        if name in network.zone_names[:index]:
            yield Problem(f"{where}[{index}]", f"{shown(name)} is listed twice; remove one")


def route_out(settings: Settings) -> Iterator[Problem]:
    network = settings.network
    if network.nat_gateways == "none" and not network.has_interface_endpoints and not network.is_existing:
        yield Problem("network.natGateways", '"none" leaves nodes without a route to AWS; add interfaceEndpoints: true')


def zones_exist(settings: Settings, facts: Facts) -> Iterator[Problem]:
    names = [zone.name for zone in facts.zones]
    for index, name in enumerate(settings.network.zone_names):
        if name not in names:
            not_there = f"{shown(name)} is not a zone of {facts.region} that EKS can use"
            yield Problem(f"network.zones[{index}]", f"{not_there}; choose from {all_of(names)}")
    count = settings.network.zones
    if isinstance(count, int) and minimum_zones(settings) <= count <= MAXIMUM_ZONES and count > len(names):
        yield Problem("network.zones", f"asks for {count}, but {facts.region} has {len(names)} that EKS can use: {all_of(names)}")
