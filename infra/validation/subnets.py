"""Rules for the subnets of an existing VPC, and for the number of free addresses."""

from collections import Counter
from collections.abc import Iterator
from ipaddress import IPv4Network

from infra.config.messages import format_value, join_with_and
from infra.config.problems import Problem
from infra.facts.model import Facts
from infra.facts.queries import Query
from infra.plan.aws_services import list_called_services, select_essential_services
from infra.plan.placement import choose_pool_zone, list_vpc_zones
from infra.plan.subnet_cidrs import compute_zone_subnets
from infra.settings.network import SERVICE_CIDR
from infra.settings.stack import Settings
from infra.validation.pool_paths import format_account
from infra.validation.registry import Topic, register_rule

EKS_ADDRESSES = 6
"""Free addresses that EKS needs per subnet:
https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html"""


def _uses_existing_vpc(settings: Settings) -> bool:
    return settings.network.is_existing or bool(settings.network.subnet_ids)


@register_rule(Topic.VPC, reads=(Query.VPC,), applies=_uses_existing_vpc)
def check_vpc(settings: Settings, facts: Facts) -> Iterator[Problem]:
    vpc_id, where = settings.network.vpc_id, "network.vpcId"
    if vpc_id in facts.not_found:
        yield Problem(where, f"{format_value(vpc_id)} does not exist in {format_account(facts)}. Use an existing VPC.")
    if facts.vpc is None:
        return
    dns = {"enableDnsSupport": facts.vpc.dns_support, "enableDnsHostnames": facts.vpc.dns_hostnames}
    for name, is_enabled in dns.items():
        if not is_enabled:
            yield Problem(where, f"{vpc_id} has {name} disabled, so nodes cannot find the cluster. Enable it.")
    for block in facts.vpc.cidrs if settings.is_eks else ():
        if IPv4Network(block).overlaps(IPv4Network(SERVICE_CIDR)):
            overlap = f"which overlaps {SERVICE_CIDR}, the CIDR of Kubernetes services"
            yield Problem(where, f"{vpc_id} has {block}, {overlap}. Use another VPC.")


@register_rule(Topic.VPC, reads=(Query.SUBNETS,), applies=_uses_existing_vpc)
def check_subnets(settings: Settings, facts: Facts) -> Iterator[Problem]:
    network = settings.network
    for index, subnet_id in enumerate(network.subnet_ids):
        where, subnet = f"network.subnetIds[{index}]", facts.subnets.get(subnet_id)
        if subnet_id in facts.not_found:
            yield Problem(where, f"{format_value(subnet_id)} does not exist in {format_account(facts)}. Use an existing subnet.")
        elif subnet and network.vpc_id and subnet.vpc_id != network.vpc_id:
            yield Problem(where, f"{subnet_id} is in {subnet.vpc_id}, not in {network.vpc_id}. Use a subnet of {network.vpc_id}.")
        elif subnet and subnet.is_public:
            fix = "Use a private subnet, because nodes get no public addresses."
            yield Problem(where, f"{subnet_id} is public: it has a route to an internet gateway. {fix}")
        elif subnet and settings.is_eks and facts.existing.cluster_version is None and subnet.free_addresses < EKS_ADDRESSES:
            free = f"{subnet_id} has {subnet.free_addresses} free addresses"
            yield Problem(where, f"{free}, but EKS needs {EKS_ADDRESSES} in each subnet")
    zones = [facts.subnets[subnet_id].zone for subnet_id in network.subnet_ids if subnet_id in facts.subnets]
    if zones and len(zones) == len(network.subnet_ids) and len(set(zones)) < settings.target.minimum_zones:
        fix = "EKS needs subnets in at least two zones."
        yield Problem("network.subnetIds", f"are all in {zones[0]}. {fix}")


@register_rule(Topic.VPC, reads=(Query.SUBNETS, Query.ENDPOINTS), applies=_uses_existing_vpc)
def check_aws_is_reachable(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """Check that nodes in private subnets can reach AWS: by a route out of the VPC, or through VPC endpoints."""
    needed = _list_required_endpoints(settings)
    if facts.endpoints is None or needed <= facts.endpoints:
        return
    for index, subnet_id in enumerate(settings.network.subnet_ids):
        subnet = facts.subnets.get(subnet_id)
        if subnet and not subnet.is_public and not subnet.has_route_out:
            missing = f"{subnet.vpc_id} has no endpoints for {join_with_and(sorted(needed - facts.endpoints))}"
            fix = "Route the subnet to a NAT or transit gateway, or create the endpoints."
            yield Problem(f"network.subnetIds[{index}]", f"{subnet_id} has no route out of the VPC, and {missing}. {fix}")


def _list_required_endpoints(settings: Settings) -> frozenset[str]:
    """Return the VPC endpoints that nodes of a private cluster need to join and to run jobs."""
    needed = {*select_essential_services(settings, list_called_services(settings)), "s3"}
    if settings.storage.efs == "none":
        needed.discard("elasticfilesystem")
    if settings.is_eks and not (settings.installs_platform and settings.platform.autoscaler):
        needed.discard("autoscaling")
    return frozenset(needed)


@register_rule(Topic.ADDRESSES, reads=(Query.SUBNETS,), applies=lambda settings: settings.network.is_existing)
def check_free_addresses(settings: Settings, facts: Facts) -> Iterator[Problem]:
    for zone in list_vpc_zones(settings, facts):
        free = sum(subnet.free_addresses for subnet in facts.subnets.values() if subnet.zone == zone)
        if need := _describe_address_shortage(settings, facts, zone, free):
            have = f"have {free} free addresses in {zone}"
            yield Problem("network.subnetIds", f"{have}, {need}. Use larger subnets, or lower maxSize.")


@register_rule(applies=lambda settings: not settings.network.is_existing)
def check_cidr_size(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """Check that the CIDR of a new VPC gives each zone enough addresses. Another rule reports a malformed CIDR."""
    for zone in list_vpc_zones(settings, facts):
        try:
            free = compute_zone_subnets(settings.network.new_cidr, zone).private_capacity
        except (ValueError, IndexError):  # the CIDR has no room for subnets
            continue
        if need := _describe_address_shortage(settings, facts, zone, free):
            have = f"{settings.network.new_cidr} gives {zone} {free} addresses"
            yield Problem("network.cidr", f"{have}, {need}. Use a larger CIDR, or lower maxSize.")


def _describe_address_shortage(settings: Settings, facts: Facts, zone: str, free: int) -> str | None:
    """Return a clause about the addresses that a zone's nodes need at maxSize; None if the free addresses suffice."""
    nodes = _count_maximum_nodes(settings, facts, zone)
    each = settings.target.addresses_per_node
    if (needed := nodes.total() * each) <= free:
        return None
    counts = join_with_and(f"{count} of {name}" for name, count in nodes.items() if count > 0)
    return f"but its nodes (at most {counts}) need {needed} ({each} each)"


def _count_maximum_nodes(settings: Settings, facts: Facts, zone: str) -> Counter[str]:
    """Return a mapping from pools to their maximum number of nodes in a zone. In an existing VPC, count only nodes
    that do not exist yet."""
    nodes: Counter[str] = Counter()
    if settings.is_eks:
        nodes[settings.eks.system.name] = settings.eks.system.max_size
    elif any(choose_pool_zone(pool, settings, facts) == zone for pool in settings.pools):
        nodes["the head node"] = 1
    for pool in settings.pools:
        if choose_pool_zone(pool, settings, facts) == zone:
            nodes[pool.name] += pool.max_size
    if settings.network.is_existing:
        nodes.subtract({name: pool.desired_size for name, pool in facts.existing.pools.items() if name in nodes})
    return nodes
