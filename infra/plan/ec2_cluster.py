"""Plan of an EC2 cluster: all decisions about its nodes, made before the first resource is registered."""

from typing import Final

from infra.facts.instance_types import InstanceType
from infra.facts.model import Facts
from infra.plan.efa_interfaces import plan_efa_interfaces
from infra.plan.eks_pools import find_reservation
from infra.plan.placement import choose_pool_zone, has_efa, needs_placement_group, plan_sizes, resolve_placement
from infra.plan.specs import Ec2ClusterSpec, HeadNodeSpec, Market, WorkersSpec
from infra.settings.pools import Capacity, CapacityBlock, OnDemand, Spot, TargetedOdcr
from infra.settings.stack import Settings

BASE_SECONDS: Final = 900
"""Enough time for types with little memory: most EC2 instances boot within two minutes."""
SECONDS_PER_TIB: Final = 300
"""Large instances boot more slowly, because firmware and kernel initialize their memory. AWS publishes no figures: NOT
VERIFIED (2026-11-23). With this value, a p5.48xlarge (2 TiB) gets 25 minutes. AWS ParallelCluster allows 30 minutes for
every type:
https://docs.aws.amazon.com/parallelcluster/latest/ug/DevSettings-cluster-v3.html"""
BARE_METAL_SECONDS: Final = 1800
"""Bare metal instances "can take over 20 minutes to start": https://github.com/canonical/pycloudlib/pull/192"""
LONGEST_SECONDS: Final = 7200
"""Maximum timeout of a lifecycle hook:
https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_PutLifecycleHook.html"""

TIB_MIB: Final = 1024**2


def plan_ec2_cluster(settings: Settings, facts: Facts) -> Ec2ClusterSpec:
    pool, ami, target = settings.pools[0], facts.ami, settings.ec2
    zone = choose_pool_zone(pool, settings, facts)
    if zone is None or ami is None:
        raise LookupError("the cluster has no zone or no AMI; validation should have reported that")
    head_type, worker_type = facts.instance_types[target.head_node_type], facts.instance_types[pool.instance_type]
    existing = facts.existing.pools.get(pool.name)
    workers = WorkersSpec(
        ami_id=ami.id,
        root_device=ami.root_device,
        root_volume_gib=pool.root_volume_gib,
        instance_type=pool.instance_type,
        slots=worker_type.slots,
        market=_choose_market(pool.capacity),
        reservation=find_reservation(pool.capacity),
        interfaces=plan_efa_interfaces(worker_type) if has_efa(pool, worker_type) else (),
        pool=pool.name,
        gpus=worker_type.gpus,
        sizes=plan_sizes(pool, settings, facts),
        join_seconds=(existing.join_seconds if existing else None) or compute_join_timeout(worker_type),
        placement=resolve_placement(pool, facts),
    )
    runs_ranks = target.head_node_type == pool.instance_type
    head_node = HeadNodeSpec(
        ami_id=ami.id,
        root_device=ami.root_device,
        root_volume_gib=pool.root_volume_gib,
        instance_type=target.head_node_type,
        slots=head_type.slots if runs_ranks else 0,
        market="capacity-block" if runs_ranks and workers.market == "capacity-block" else "on-demand",
        reservation=workers.reservation if runs_ranks else None,
        interfaces=workers.interfaces if runs_ranks else (),
        idle_slots=head_type.slots,
        ssh_cidrs=target.ssh.cidrs,
    )
    return Ec2ClusterSpec(
        head_node=head_node,
        workers=workers,
        zone=zone,
        user=target.user,
        public_keys=target.ssh.public_keys,
        makes_placement_group=needs_placement_group(pool, facts),
        own_placement_group=pool.own_placement_group,
    )


def _choose_market(capacity: Capacity) -> Market:
    match capacity:
        case Spot():
            return "spot"
        case CapacityBlock():
            return "capacity-block"
        case OnDemand() | TargetedOdcr():
            return "on-demand"


def compute_join_timeout(instance: InstanceType) -> int:
    """Return the time limit of a worker from launch to join: 15 minutes plus 5 minutes per TiB of memory."""
    seconds = BASE_SECONDS + SECONDS_PER_TIB * instance.memory_mib // TIB_MIB
    if instance.is_bare_metal:
        seconds = max(seconds, BARE_METAL_SECONDS)
    return min(seconds, LONGEST_SECONDS) // 60 * 60
