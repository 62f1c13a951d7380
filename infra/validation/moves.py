"""Rules for settings that cannot change in an existing cluster: its VPC and the zones of its control plane.

https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html
"""

from collections.abc import Iterator

from infra.config.messages import all_of, shown
from infra.config.problems import Problem
from infra.facts.model import Facts
from infra.plan.placement import vpc_zones
from infra.settings.stack import Settings

OR_ANOTHER = "or create another stack."


def vpc(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """Reject a changed VPC or CIDR: a cluster cannot move to another VPC, and the CIDR of a VPC cannot change."""
    network, now, own = settings.network, facts.existing.cluster_vpc_id, facts.existing.own_vpc
    if now is None:
        return
    if own is None or own.id != now:
        if network.vpc_id != now:
            yield Problem("network.vpcId", f"must be {now}, because the cluster cannot leave that VPC. Set it, {OR_ANOTHER}")
    elif network.is_existing:
        there = f"the cluster is in {now}, which this stack created and manages"
        yield Problem("network.vpcId", f"names a VPC, but {there}. Remove vpcId and subnetIds, {OR_ANOTHER}")
    elif network.new_cidr != own.cidr:
        there = f"but the cluster's VPC has {own.cidr}, which cannot change"
        yield Problem("network.cidr", f"is {shown(network.new_cidr)}, {there}. Use {shown(own.cidr)}, {OR_ANOTHER}")


def zones(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """Check that there is still a subnet in each zone in which the control plane was created."""
    network, fixed = settings.network, facts.existing.cluster_zones
    missing = [zone for zone in fixed if zone not in vpc_zones(settings, facts)]
    if not missing or any(True for _ in vpc(settings, facts)) or any(one in facts.not_found for one in network.subnet_ids):
        return
    there = f"but the control plane is in {all_of(fixed)}, which it cannot leave"
    if network.is_existing:
        yield Problem("network.subnetIds", f"contain no subnet in {all_of(missing)}, {there}. Add one, {OR_ANOTHER}")
    elif isinstance(network.zones, int):
        yield Problem("network.zones", f"is {network.zones}, {there}. Set {len(fixed)}, {OR_ANOTHER}")
    else:
        yield Problem("network.zones", f"omits {all_of(missing)}, {there}. Add the missing zones, {OR_ANOTHER}")
