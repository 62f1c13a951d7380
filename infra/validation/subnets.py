"""Rules for the subnets of an existing VPC, and for the number of free addresses."""

from collections import Counter
from collections.abc import Iterator
from ipaddress import IPv4Network

from infra.config.messages import all_of, shown
from infra.config.problems import Problem
from infra.facts.model import Facts
from infra.plan.aws_services import FOR_EC2, FOR_EKS, essential
from infra.plan.placement import minimum_zones, pool_zone, vpc_zones
from infra.plan.subnet_cidrs import zone_addresses
from infra.settings.network import SERVICE_CIDR
from infra.settings.stack import Settings
from infra.validation.pool_paths import account

NODE_ADDRESSES = 13
"""IP addresses per node: one for the primary interface and, for pods, the VPC CNI's MINIMUM_IP_TARGET of 12.
`efa-only` interfaces use no IP address, so a p5 with its 33 interfaces needs no more."""

EKS_ADDRESSES = 6
"""Free addresses that EKS needs per subnet:
https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html"""


def existing_vpc(settings: Settings, facts: Facts) -> Iterator[Problem]:
    vpc_id, where = settings.network.vpc_id, "network.vpcId"
    if vpc_id in facts.not_found:
        yield Problem(where, f"{shown(vpc_id)} does not exist in {account(facts)}. Use an existing VPC.")
    if facts.vpc is None:
        return
    for name, on in (("enableDnsSupport", facts.vpc.dns_support), ("enableDnsHostnames", facts.vpc.dns_hostnames)):
        if not on:
            yield Problem(where, f"{vpc_id} has {name} disabled, so nodes cannot find the cluster. Enable it.")
    for block in facts.vpc.cidrs if settings.is_eks else ():
        if IPv4Network(block).overlaps(IPv4Network(SERVICE_CIDR)):
            overlap = f"which overlaps {SERVICE_CIDR}, the CIDR of Kubernetes services"
            yield Problem(where, f"{vpc_id} has {block}, {overlap}. Use another VPC.")


def existing_subnets(settings: Settings, facts: Facts) -> Iterator[Problem]:
    network = settings.network
    found = [facts.subnets[one] for one in network.subnet_ids if one in facts.subnets]
    for index, one in enumerate(network.subnet_ids):
        where, subnet = f"network.subnetIds[{index}]", facts.subnets.get(one)
        if one in facts.not_found:
            yield Problem(where, f"{shown(one)} does not exist in {account(facts)}. Use an existing subnet.")
        elif subnet and network.vpc_id and subnet.vpc_id != network.vpc_id:
            yield Problem(where, f"{one} is in {subnet.vpc_id}, not in {network.vpc_id}. Use a subnet of {network.vpc_id}.")
        elif subnet and subnet.is_public:
            fix = "Use a private subnet, because nodes get no public addresses."
            yield Problem(where, f"{one} is public: it has a route to an internet gateway. {fix}")
        elif subnet and settings.is_eks and facts.existing.cluster_version is None and subnet.free_addresses < EKS_ADDRESSES:
            yield Problem(
                where, f"{one} has {subnet.free_addresses} free addresses, but EKS needs {EKS_ADDRESSES} in each subnet"
            )
    zones = {subnet.zone for subnet in found}
    if found and len(found) == len(network.subnet_ids) and len(zones) < minimum_zones(settings):
        fix = "EKS needs subnets in at least two zones."
        yield Problem("network.subnetIds", f"are all in {found[0].zone}. {fix}")


def routes_out(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """Check that nodes in private subnets can reach AWS: by a route out of the VPC, or through VPC endpoints."""
    needed = _endpoints_needed(settings)
    if facts.endpoints is None or needed <= facts.endpoints:
        return
    for index, one in enumerate(settings.network.subnet_ids):
        subnet = facts.subnets.get(one)
        if subnet and not subnet.is_public and not subnet.has_route_out:
            missing = f"{subnet.vpc_id} has no endpoints for {all_of(sorted(needed - facts.endpoints))}"
            fix = "Route the subnet to a NAT or transit gateway, or create the endpoints."
            yield Problem(f"network.subnetIds[{index}]", f"{one} has no route out of the VPC, and {missing}. {fix}")


def _endpoints_needed(settings: Settings) -> frozenset[str]:
    """Return the VPC endpoints that nodes of a private cluster need to join and to run jobs."""
    needed = {*essential(settings, FOR_EKS if settings.is_eks else FOR_EC2), "s3"}
    if settings.storage.efs == "none":
        needed.discard("elasticfilesystem")
    if settings.is_eks and not (settings.installs_platform and settings.platform.autoscaler):
        needed.discard("autoscaling")
    return frozenset(needed)


def enough_addresses(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """Check that each zone's private subnets have enough addresses for the maximum number of nodes there."""
    for zone in vpc_zones(settings, facts):
        free, nodes = _free_addresses(settings, facts, zone), _maximum_nodes(settings, facts, zone)
        each = NODE_ADDRESSES if settings.is_eks else 1
        needed = nodes.total() * each
        if free is None or needed <= free:
            continue
        who = all_of(f"{count} of {name}" for name, count in nodes.items() if count > 0)
        need = f"but its nodes (at most {who}) need {needed} ({each} each)"
        if settings.network.is_existing:
            have = f"have {free} free addresses in {zone}"
            yield Problem("network.subnetIds", f"{have}, {need}. Use larger subnets, or lower maxSize.")
        else:
            have = f"{settings.network.new_cidr} gives {zone} {free} addresses"
            yield Problem("network.cidr", f"{have}, {need}. Use a larger CIDR, or lower maxSize.")


def _maximum_nodes(settings: Settings, facts: Facts, zone: str) -> Counter[str]:
    """Return pool -> maximum number of nodes in a zone. In an existing VPC, count only nodes that do not exist yet."""
    nodes: Counter[str] = Counter()
    if settings.is_eks:
        nodes[settings.eks.system.name] = settings.eks.system.max_size
    elif any(pool_zone(pool, settings, facts) == zone for pool in settings.pools):
        nodes["the head node"] = 1
    for pool in settings.pools:
        if pool_zone(pool, settings, facts) == zone:
            nodes[pool.name] += pool.max_size
    if settings.network.is_existing:
        nodes.subtract({name: one.desired_size for name, one in facts.existing.pools.items() if name in nodes})
    return nodes


def _free_addresses(settings: Settings, facts: Facts, zone: str) -> int | None:
    """Return the number of addresses that are free for nodes in a zone; None if the CIDR is unusable, which another
    rule reports."""
    if settings.network.is_existing:
        return sum(subnet.free_addresses for subnet in facts.subnets.values() if subnet.zone == zone)
    try:
        return zone_addresses(settings.network.new_cidr, zone).private_capacity
    except (ValueError, IndexError):  # the CIDR has no room for subnets
        return None
