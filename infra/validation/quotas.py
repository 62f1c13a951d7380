"""vCPU quotas: whether the account may run the pools at their largest."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from infra.config.messages import all_of
from infra.config.problems import Problem
from infra.facts.account import is_limited
from infra.facts.model import Facts
from infra.facts.vcpu_quotas import Quota, quota
from infra.settings.pools import Spot
from infra.settings.stack import Settings
from infra.validation.pool_paths import pools_with_types


@dataclass(frozen=True)
class _Need:
    where: str
    who: str
    vcpus: int


def enough(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """An account begins with 0 for every GPU family. What else runs in the account is not looked at."""
    needs: dict[Quota, list[_Need]] = defaultdict(list)
    for limit, need in _needs(settings, facts):
        needs[limit].append(need)
    for limit, users in needs.items():
        vcpus, allowed = sum(need.vcpus for need in users), facts.quotas.get(limit.code)
        if allowed is not None and vcpus > allowed:
            where = users[0].where if len(users) == 1 else "pools"
            needed = f"{all_of(need.who for need in users)} need {vcpus} vCPUs"
            ask = f"aws service-quotas request-service-quota-increase --service-code ec2 --quota-code {limit.code}"
            way_out = f"ask for more (`{ask} --desired-value {vcpus} --region {facts.region}`) or lower maxSize"
            yield Problem(where, f'{needed}, but the quota "{limit.name}" is {allowed:g}; {way_out}')


def _needs(settings: Settings, facts: Facts) -> Iterator[tuple[Quota, _Need]]:
    where, name = ("target.system.maxSize" if settings.is_eks else "target.masterType"), settings.target.head_type
    instance_type = facts.instance_types.get(name)
    limit = quota(name, spot=False)
    if limit and instance_type:
        most = settings.eks.system.max_size if settings.is_eks else 1
        yield limit, _Need(where, f"{most} {name}", most * instance_type.vcpus)
    for path, pool, pool_type in pools_with_types(settings, facts):
        limit = quota(pool.instance_type, spot=isinstance(pool.capacity, Spot))
        if limit and is_limited(pool.capacity):
            yield limit, _Need(f"{path}.maxSize", f"{pool.max_size} {pool.instance_type}", pool.max_size * pool_type.vcpus)
