"""An EKS cluster: network -> storage -> control plane -> node pools -> add-ons -> platform -> outputs."""

from collections.abc import Mapping, Sequence

import pulumi

from infra import outputs
from infra.clusters.foundation import Foundation, create_foundation, create_placement_group, flatten_subnets
from infra.components import iam
from infra.components.eks_addons import NEEDED_BY_NODES, RUN_ON_NODES, EksAddons, EksAddonsArgs
from infra.components.eks_cluster import EksCluster, EksClusterArgs
from infra.components.iam import Account
from infra.components.image_repositories import ImageRepositories
from infra.components.job_logs import JobLogs
from infra.components.node_pool import NodePool, NodePoolArgs
from infra.components.node_role import NodeRole
from infra.components.pod_role import ManagedPolicy, PodRole, PodRoleArgs
from infra.facts.model import Facts
from infra.jobs.cluster import ClusterDescription
from infra.kubernetes.reachability import Check
from infra.naming import (
    AUTOSCALER_ACCOUNT,
    AUTOSCALER_TAG,
    JOB_SERVICE_ACCOUNT,
    KUBE_SYSTEM,
    Naming,
)
from infra.plan import eks_pools, image_repositories, monitoring
from infra.plan.cluster_description import describe_eks_cluster
from infra.plan.eks_pools import PoolPlan
from infra.plan.eks_versions import choose_support_type, choose_versions
from infra.plan.placement import list_control_plane_zones
from infra.settings.network import SERVICE_CIDR
from infra.settings.stack import Settings


def build(settings: Settings, facts: Facts, check: Check | None) -> Mapping[str, object]:
    """Register all resources of the cluster and return its outputs. Without `check`, install no platform.

    Resources that do not need the control plane are created in parallel with it.
    """
    base = create_foundation(settings, facts)
    naming, account = base.naming, base.account
    versions = choose_versions(settings, facts)
    role = NodeRole(naming.name("node"), naming, account, base.keys.arn)

    cluster = EksCluster(naming.name("cluster"), _build_cluster_args(settings, facts, base))
    first = EksAddons(naming.name("addon"), EksAddonsArgs(naming, account, cluster.name, NEEDED_BY_NODES, versions))
    before_nodes = [*base.network.routes, *base.endpoints, *base.nodes.rules, *role.attachments, *first.addons]

    plans = eks_pools.plan_pools(settings, facts)
    groups = {plan.spec.name: _create_node_pool(plan, base, role, cluster, before_nodes) for plan in plans.values()}
    system = settings.eks.system.name
    services = EksAddons(
        naming.name("service"),
        EksAddonsArgs(naming, account, cluster.name, RUN_ON_NODES, versions, after=[groups[system].node_group]),
    )
    job_roles = _create_job_roles(settings, base, cluster)
    autoscaler_role = _create_autoscaler_role(settings, naming, account, cluster)
    description = describe_eks_cluster(settings, facts, plans)
    if settings.platform.image_repositories:
        ImageRepositories(naming.name("images"), naming, image_repositories.list_repository_names(settings.jobs))
    if settings.installs_platform and check is not None:
        _install_platform(
            settings, facts, base, description, cluster, groups[system], services, job_roles, autoscaler_role, check
        )
    return {
        **outputs.describe_eks_cluster(cluster, name=naming.cluster, stack=settings.stack, region=settings.region),
        **outputs.describe_network(base.network, base.nodes),
        **outputs.describe_storage(base.file_systems, base.keys),
        **outputs.describe_image_repository(description),
        "pools": [outputs.describe_pool(plans[pool.name], groups[pool.name]) for pool in settings.pools],
        "systemPool": outputs.describe_pool(plans[system], groups[system]),
        "platform": outputs.describe_platform(description, installed=settings.installs_platform),
    }


def _build_cluster_args(settings: Settings, facts: Facts, base: Foundation) -> EksClusterArgs:
    target, caller = settings.eks, facts.caller.principal_arn
    return EksClusterArgs(
        base.naming,
        base.account,
        version=target.kubernetes_version,
        support_type=choose_support_type(settings, facts),
        service_cidr=SERVICE_CIDR,
        subnet_ids=flatten_subnets(
            {zone: base.network.private_subnets[zone] for zone in list_control_plane_zones(settings, facts)}
        ),
        # The caller needs access, because the same `pulumi up` installs the platform.
        admins=sorted({*target.admins, *([caller] if caller else [])}),
        public_cidrs=target.endpoint_access.public_cidrs if target.endpoint_access.is_public else (),
        private_cidrs=target.endpoint_access.private_cidrs,
        logs_key_arn=base.logs_key.arn,
        log_retention_days=target.log_retention_days,
        deletion_protection=target.deletion_protection,
    )


def _create_node_pool(
    plan: PoolPlan, base: Foundation, role: NodeRole, cluster: EksCluster, after: Sequence[pulumi.Resource]
) -> NodePool:
    name = plan.spec.name
    placement = create_placement_group(name, plan.zones[0], base.naming) if plan.makes_placement_group else None
    args = NodePoolArgs(
        base.naming,
        plan.spec,
        cluster,
        node_role_arn=role.arn,
        node_security_group_id=base.nodes.id,
        subnet_ids=[base.network.private_subnets[zone][0] for zone in plan.zones],
        placement_group=placement.group_name if placement else plan.own_placement_group,
        after=[*after, *([placement.group] if placement else [])],  # a node group is deleted before its placement group
    )
    return NodePool(base.naming.name(name), args)


def _create_job_roles(settings: Settings, base: Foundation, cluster: EksCluster) -> list[PodRole]:
    naming, account, logs = base.naming, base.account, _create_job_logs(settings, base)
    roles: list[PodRole] = []
    for namespace in settings.platform.namespace_names:
        paths = [
            iam.BucketPath(policy.bucket, policy.path, policy.access == "readWrite")
            for policy in settings.platform.job_policies
            if policy.namespace in (None, namespace)
        ]
        keys = base.keys.arn.apply(lambda arn: iam.to_json(iam.allow_job_key_exchange(arn)))
        policies: dict[str, pulumi.Input[str] | ManagedPolicy] = {"policy": keys}
        if paths:
            policies["buckets"] = iam.to_json(iam.allow_bucket_access(account, paths))
        if logs is not None:
            policies["logs"] = logs.arn.apply(lambda arn: iam.to_json(iam.allow_job_log_writes(arn)))
        args = PodRoleArgs(
            naming,
            account=account,
            description=f"Job pods of {naming.cluster} in {namespace}: exchange of public SSH keys",
            namespace=namespace,
            service_account=JOB_SERVICE_ACCOUNT,
            policies=policies,
            cluster_name=cluster.name,
        )
        roles.append(PodRole(naming.name(f"{namespace}-job"), args))
    return roles


def _create_job_logs(settings: Settings, base: Foundation) -> JobLogs | None:
    if not settings.platform.keeps_logs_in_cloudwatch:
        return None
    retention = settings.target.log_retention_days
    return JobLogs(base.naming.name("job-logs"), base.naming, base.logs_key.arn, retention)


def _create_autoscaler_role(settings: Settings, naming: Naming, account: Account, cluster: EksCluster) -> PodRole | None:
    if not settings.platform.autoscaler:
        return None
    args = PodRoleArgs(
        naming,
        account=account,
        description=f"Cluster autoscaler of {naming.cluster}",
        namespace=KUBE_SYSTEM,
        service_account=AUTOSCALER_ACCOUNT,
        policies={"policy": iam.to_json(iam.allow_node_group_scaling(account, naming.cluster, AUTOSCALER_TAG))},
        cluster_name=cluster.name,
    )
    return PodRole(naming.name("autoscaler"), args)


def _install_platform(
    settings: Settings,
    facts: Facts,
    base: Foundation,
    description: ClusterDescription,
    cluster: EksCluster,
    system: NodePool,
    services: EksAddons,
    job_roles: Sequence[PodRole],
    autoscaler_role: PodRole | None,
    check: Check,
) -> None:
    """Install the platform into the cluster."""
    # Imported here because pulumi_kubernetes is slow to load and not needed without a platform.
    from infra.platform.install import Platform, PlatformArgs
    from infra.platform.shared_volume import Volume
    from infra.platform.site import Site

    naming, platform = base.naming, settings.platform
    volumes = [
        Volume(
            each.volume,
            each.spec.kind.claim,
            owned=each.spec.owned,
            storage_class=each.storage_class,
            needs=[services.find_addon(each.spec.kind.driver), *each.mounting],
        )
        for each in base.file_systems
    ]
    version, manifests = settings.eks.kubernetes_version, facts.manifests
    args = PlatformArgs(
        Site(naming, version, platform, manifests, description, node_groups=[system.node_group]),
        kubeconfig=outputs.build_eks_kubeconfig(cluster, name=naming.cluster, region=settings.region, check=check),
        volumes=volumes,
        access=cluster.access,
        autoscaler_role=autoscaler_role.association if autoscaler_role else None,
        monitoring=monitoring.plan_monitoring(platform, description),
        key_bucket=base.keys.name,
        job_roles=job_roles,
        jobs=settings.jobs,
    )
    Platform(naming.name("platform"), args)
