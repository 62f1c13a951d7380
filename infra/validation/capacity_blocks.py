"""Rules for changes to pools in Capacity Blocks.

"When upgrading managed node groups with Capacity Blocks, make sure that the desired size of the node group is set to 0":
https://docs.aws.amazon.com/eks/latest/userguide/capacity-blocks-mng.html
"""

from collections.abc import Iterator

from infra.config.messages import all_of
from infra.config.problems import Problem
from infra.facts.model import ExistingPool, Facts
from infra.plan.eks_pools import plan
from infra.plan.template_changes import changes
from infra.settings.pools import CapacityBlock, Pool
from infra.settings.stack import Settings
from infra.validation.pool_paths import pools_with_paths


def with_nodes(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """Refuse to upgrade a node group that has nodes: EKS would terminate nodes in the Capacity Block and could not
    launch replacements."""
    running = [(path, pool, found) for path, pool in pools_with_paths(settings) if (found := _running(pool, facts))]
    if not running:
        return
    try:
        plans = plan(settings, facts)
    except LookupError:  # another rule reports the reason
        return
    version = settings.eks.kubernetes_version
    for path, pool, existing in running:
        count = f"{existing.desired_size} node{'' if existing.desired_size == 1 else 's'}"
        nodes = f"{pool.name} has {count} in a Capacity Block"
        fix = f"EKS can upgrade such a pool only at size 0. First run `{_scale_to_zero(settings, facts, existing)}`."
        differing = changes(plans[pool.name].spec, existing.block_template) if existing.block_template else []
        if differing:
            yield Problem(path, f"{nodes}, and `pulumi up` would change {all_of(differing)} in the launch template. {fix}")
        if pool.ami_id is None and existing.version not in (None, version):
            yield Problem("target.kubernetesVersion", f'"{version}" would upgrade all pools, but {nodes}. {fix}')


def _running(pool: Pool, facts: Facts) -> ExistingPool | None:
    """Return the pool's existing node group, if it has nodes in a Capacity Block and the stack keeps the group."""
    existing = facts.existing.pools.get(pool.name)
    if existing is None or existing.block_template is None or existing.failed or not existing.desired_size:
        return None
    return existing if isinstance(pool.capacity, CapacityBlock) else None


def _scale_to_zero(settings: Settings, facts: Facts, existing: ExistingPool) -> str:
    group = f"--region {facts.region} --cluster-name {settings.cluster_name} --nodegroup-name {existing.node_group}"
    return f"aws eks update-nodegroup-config {group} --scaling-config minSize=0,desiredSize=0"
