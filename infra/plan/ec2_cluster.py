"""Plan of an EC2 cluster: all decisions about its nodes, made before the first resource is registered."""

from dataclasses import dataclass

from infra.facts.instance_types import InstanceType
from infra.facts.model import Facts
from infra.plan.efa_interfaces import efa_layout
from infra.plan.eks_pools import reservation_of
from infra.plan.join_time import join_seconds
from infra.plan.placement import desired_size, has_efa, placement_choice, pool_zone, wants_placement_group
from infra.plan.specs import HeadNodeSpec, Market, WorkersSpec
from infra.settings.pools import Capacity, CapacityBlock, OnDemand, Spot, TargetedOdcr
from infra.settings.stack import Settings


@dataclass(frozen=True)
class Ec2ClusterPlan:
    """Head node, workers, and their location."""

    head_node: HeadNodeSpec
    workers: WorkersSpec
    head_node_type: InstanceType
    worker_type: InstanceType
    zone: str
    head_node_runs_ranks: bool
    """Whether the head node runs ranks like a worker, in the workers' placement group."""
    makes_placement_group: bool
    own_placement_group: str | None
    """Name of the user's placement group."""

    @property
    def head_node_slots(self) -> int:
        return self.head_node_type.slots if self.head_node_runs_ranks else 0


def plan(settings: Settings, facts: Facts) -> Ec2ClusterPlan:
    pool, ami = settings.pools[0], facts.ami
    zone = pool_zone(pool, settings, facts)
    if zone is None or ami is None:
        raise LookupError("the cluster has no zone or no AMI; validation should have reported that")
    worker_type = facts.instance_types[pool.instance_type]
    interfaces = efa_layout(worker_type) if has_efa(pool, worker_type) else ()
    runs_ranks = settings.ec2.head_node_type == pool.instance_type
    reserved = reservation_of(pool.capacity) if runs_ranks else None
    desired, keep = desired_size(pool, settings, facts)
    existing = facts.existing.pools.get(pool.name)
    return Ec2ClusterPlan(
        head_node=HeadNodeSpec(
            instance_type=settings.ec2.head_node_type,
            ami_id=ami.id,
            root_device=ami.root_device,
            root_volume_gib=pool.root_volume_gib,
            ssh_cidrs=settings.ec2.ssh.cidrs,
            capacity_block=runs_ranks and isinstance(pool.capacity, CapacityBlock),
            reservation=reserved,
            interfaces=interfaces if runs_ranks else (),
        ),
        workers=WorkersSpec(
            pool=pool.name,
            instance_type=pool.instance_type,
            ami_id=ami.id,
            root_device=ami.root_device,
            root_volume_gib=pool.root_volume_gib,
            minimum=pool.min_size,
            desired=desired,
            maximum=pool.max_size,
            keep_desired=keep,
            join_seconds=(existing.join_seconds if existing else None) or join_seconds(worker_type),
            market=_market(pool.capacity),
            reservation=reservation_of(pool.capacity),
            interfaces=interfaces,
            placement=placement_choice(pool, facts),
        ),
        head_node_type=facts.instance_types[settings.ec2.head_node_type],
        worker_type=worker_type,
        zone=zone,
        head_node_runs_ranks=runs_ranks,
        makes_placement_group=wants_placement_group(pool, facts),
        own_placement_group=pool.own_placement_group,
    )


def _market(capacity: Capacity) -> Market:
    match capacity:
        case Spot():
            return "spot"
        case CapacityBlock():
            return "capacity-block"
        case OnDemand() | TargetedOdcr():
            return "on-demand"
