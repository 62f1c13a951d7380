"""A cluster of EC2 instances without Kubernetes: a head node and an Auto Scaling group of workers."""

from collections.abc import Mapping

from infra import outputs
from infra.clusters.foundation import Foundation, create_foundation, create_placement_group
from infra.components.ec2_cluster import Ec2Cluster, Ec2ClusterArgs
from infra.facts.model import Facts
from infra.plan import ec2_cluster
from infra.plan.specs import Ec2ClusterSpec
from infra.settings.stack import Settings


def build(settings: Settings, facts: Facts) -> Mapping[str, object]:
    """Register all resources of the cluster and return its outputs.

    Network and storage are created in the same way as for EKS clusters.
    """
    base = create_foundation(settings, facts)
    spec = ec2_cluster.plan_ec2_cluster(settings, facts)
    cluster = Ec2Cluster(base.naming.name("cluster"), _build_cluster_args(settings, spec, base))
    return {
        **outputs.describe_ec2_cluster(cluster, spec, name=base.naming.cluster, stack=settings.stack, region=settings.region),
        **outputs.describe_network(base.network, base.nodes),
        **outputs.describe_storage(base.file_systems, base.keys),
        "user": settings.ec2.user,
    }


def _build_cluster_args(settings: Settings, spec: Ec2ClusterSpec, base: Foundation) -> Ec2ClusterArgs:
    public, private = base.network.public_subnets, base.network.private_subnets[spec.zone]
    placement = create_placement_group(spec.workers.pool, spec.zone, base.naming) if spec.makes_placement_group else None
    return Ec2ClusterArgs(
        base.naming,
        base.account,
        spec,
        keys=base.keys,
        file_systems=base.file_systems,
        vpc_id=base.network.vpc_id,
        security_group_id=base.nodes.id,
        head_node_subnet_id=public[spec.zone][0] if spec.head_node.ssh_cidrs else private[0],
        worker_subnet_id=private[0],
        placement_group=placement.group_name if placement else spec.own_placement_group,
        after=[
            *base.network.routes,
            *base.endpoints,
            *base.nodes.rules,
            *(resource for file_system in base.file_systems for resource in file_system.mounting),
            *([placement.group] if placement else []),
        ],
    )
