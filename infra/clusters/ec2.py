"""A cluster of EC2 instances without Kubernetes: a head node and an Auto Scaling group of workers."""

from collections.abc import Mapping

from infra import outputs
from infra.clusters.foundation import Foundation, create_placement, lay_foundation
from infra.components.ec2_cluster import Ec2Cluster, Ec2ClusterArgs, MountedFileSystem
from infra.facts import Facts
from infra.plan import ec2_cluster
from infra.plan.ec2_cluster import Ec2ClusterPlan
from infra.settings.stack import Settings


def build(settings: Settings, facts: Facts) -> Mapping[str, object]:
    """Network and storage as for EKS, and instead of a control plane a master."""
    base = lay_foundation(settings, facts)
    plan = ec2_cluster.plan(settings, facts)
    cluster = Ec2Cluster(base.naming.name("cluster"), _cluster_args(settings, plan, base))
    return {
        **outputs.plain_cluster(cluster, plan, name=base.naming.cluster, stack=settings.stack, region=settings.region),
        **outputs.network(base.network, base.nodes),
        **outputs.storage(base.storage, base.keys),
        "user": settings.ec2.user,
    }


def _cluster_args(settings: Settings, plan: Ec2ClusterPlan, base: Foundation) -> Ec2ClusterArgs:
    efs, storage = settings.storage.efs, base.storage
    public, private = base.network.public_subnets, base.network.private_subnets[plan.zone]
    placement = create_placement(plan.workers.pool, plan.zone, base.naming) if plan.makes_placement_group else None
    return Ec2ClusterArgs(
        base.naming,
        base.account,
        plan.master,
        plan.workers,
        master_slots=plan.master_slots,
        master_idle_slots=plan.head_node_type.slots,
        worker_slots=plan.worker_type.slots,
        user=settings.ec2.user,
        public_keys=settings.ec2.ssh.public_keys,
        key_bucket=base.keys.name,
        key_bucket_arn=base.keys.arn,
        storage=MountedFileSystem(storage.file_system_id, storage.access_point_id, efs.mount_path)
        if storage and efs != "none"
        else None,
        vpc_id=base.network.vpc_id,
        security_group_id=base.nodes.id,
        master_subnet_id=public[plan.zone][0] if plan.master.ssh_cidrs else private[0],
        worker_subnet_ids=[private[0]],
        placement_group=placement.group_name if placement else plan.own_placement_group,
        master_is_placed=plan.master_computes,
        after=[
            *base.network.routes,
            *base.endpoints,
            *(storage.mount_targets if storage else ()),
            *([placement.group] if placement else []),
        ],
    )
