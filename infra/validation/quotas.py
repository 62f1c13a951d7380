"""Rules for service quotas: vCPUs for the pools, and EKS node groups per cluster."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from infra.config.messages import join_with_and
from infra.config.problems import Problem, create_warning
from infra.facts.account import uses_vcpu_quota
from infra.facts.model import Facts
from infra.facts.queries import Query
from infra.facts.service_quotas import NODE_GROUPS, Quota, count_node_groups, find_vcpu_quota
from infra.plan.placement import plan_sizes
from infra.settings.pools import Spot
from infra.settings.stack import Settings
from infra.validation.pool_paths import list_pools_with_types
from infra.validation.registry import EKS, Topic, register_rule


@dataclass(frozen=True)
class _Need:
    where: str
    instances: str
    now: int
    """vCPUs at the desired size that this Pulumi operation sets."""
    maximum: int
    """vCPUs at `maxSize`."""


@register_rule(Topic.VCPU_QUOTAS, reads=(Query.VCPU_QUOTAS, Query.VCPUS_IN_USE))
def check_vcpu_quotas(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """Check that vCPU quotas, which start at 0 for GPU families, cover the stack's nodes and the vCPUs already in use.

    If a quota covers the desired sizes but not `maxSize`, only warn.
    """
    needs: dict[Quota, list[_Need]] = defaultdict(list)
    for limit, need in _list_vcpu_needs(settings, facts):
        needs[limit].append(need)
    for limit, users in needs.items():
        now, maximum = sum(need.now for need in users), sum(need.maximum for need in users)
        allowed = facts.quotas.get(limit.code)
        used = facts.in_use.get(limit.code, 0)
        if allowed is None or used + maximum <= allowed:
            continue
        where = users[0].where if len(users) == 1 else "pools"
        needed = f"{join_with_and(need.instances for need in users)} need {maximum} vCPUs"
        request = f"aws service-quotas request-service-quota-increase --service-code ec2 --quota-code {limit.code}"
        fix = f"Request an increase (`{request} --desired-value {used + maximum} --region {facts.region}`) or lower maxSize."
        in_use = f", and {used} are in use by other instances or reserved" if used else ""
        message = f'{needed}, but the quota "{limit.name}" is {allowed:g}{in_use}. {fix}'
        yield Problem(where, message) if used + now > allowed else create_warning(where, message)


def _list_vcpu_needs(settings: Settings, facts: Facts) -> Iterator[tuple[Quota, _Need]]:
    name = settings.target.head_type
    instance_type, limit = facts.instance_types.get(name), find_vcpu_quota(name, spot=False)
    if limit and instance_type and settings.is_eks:
        system = settings.eks.system
        now, maximum = plan_sizes(system, settings, facts).desired, system.max_size
        vcpus = instance_type.vcpus
        yield limit, _Need("target.system.maxSize", f"{maximum} {name}", now * vcpus, maximum * vcpus)
    elif limit and instance_type:
        yield limit, _Need(settings.target.head_path, f"1 {name}", instance_type.vcpus, instance_type.vcpus)
    for path, pool, pool_type in list_pools_with_types(settings, facts):
        limit = find_vcpu_quota(pool.instance_type, spot=isinstance(pool.capacity, Spot))
        if limit and uses_vcpu_quota(pool.capacity):
            now, vcpus = plan_sizes(pool, settings, facts).desired, pool_type.vcpus
            instances = f"{pool.max_size} {pool.instance_type}"
            yield limit, _Need(f"{path}.maxSize", instances, now * vcpus, pool.max_size * vcpus)


@register_rule(Topic.NODE_GROUPS, target=EKS, reads=(Query.NODE_GROUP_QUOTA,))
def check_node_groups(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """Check that the quota covers the number of node groups: one per pool, and one for the system pool."""
    number, allowed = count_node_groups(settings), facts.node_groups_allowed
    if number > allowed:
        request = f"aws service-quotas request-service-quota-increase --service-code eks --quota-code {NODE_GROUPS.code}"
        fix = f"Request an increase (`{request} --desired-value {number} --region {facts.region}`), or use fewer pools."
        needed = f"{len(settings.pools)} pools and the system pool need {number} node groups"
        yield Problem("pools", f'{needed}, but the quota "{NODE_GROUPS.name}" is {allowed:g}. {fix}')
