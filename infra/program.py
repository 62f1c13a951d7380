"""The architecture on one screen (`build`): network -> storage -> cluster -> node pools -> platform -> outputs. The choices that
settings and facts leave to it are below."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi

from infra import outputs, plain, policies, pools, stack_file, versions
from infra.components.ec2_cluster import Ec2Cluster, Ec2ClusterArgs, Storage
from infra.components.eks_addons import EksAddons, EksAddonsArgs, needed_by_nodes, run_on_nodes
from infra.components.eks_cluster import EksCluster, EksClusterArgs
from infra.components.encryption_key import EncryptionKey, EncryptionKeyArgs
from infra.components.key_bucket import KeyBucket, KeyBucketArgs
from infra.components.network import ExistingNetwork, Network, NetworkArgs, Subnets
from infra.components.node_pool import NodePool, NodePoolArgs
from infra.components.node_role import NodeRole, NodeRoleArgs
from infra.components.node_security_group import NodeSecurityGroup, NodeSecurityGroupArgs
from infra.components.placement import Placement, PlacementArgs
from infra.components.pod_role import PodRole, PodRoleArgs
from infra.components.private_endpoints import FOR_EC2, FOR_EKS, PrivateEndpoints, PrivateEndpointsArgs
from infra.components.shared_storage import NewFileSystem, SharedStorage, SharedStorageArgs
from infra.description import describe
from infra.existing import preflight as existing
from infra.existing import program as existing_program
from infra.facts import Facts, FactsError
from infra.jobs.cluster import ClusterDescription
from infra.naming import AUTOSCALER_ACCOUNT, AUTOSCALER_TAG, JOB_SERVICE_ACCOUNT, KUBE_SYSTEM, Naming
from infra.placement import control_plane_zones, nat_zones, subnets_by_zone, vpc_zones
from infra.plain import PlainPlan
from infra.platform.reach import Check, assume_reachable, must_be_reachable
from infra.policies import Account
from infra.pools import PoolPlan
from infra.preflight import settings_and_facts
from infra.problems import SettingsError
from infra.registries import eks_registry
from infra.settings import SERVICE_CIDR, Settings
from infra.stack_file import RawStack


def run() -> None:
    """Entry of `pulumi up` and `pulumi preview`: what is wrong is told in full, without a traceback, before anything is made."""
    raw = stack_file.from_engine()
    try:
        told = _in_existing_cluster(raw) if stack_file.is_existing(raw.values) else _in_aws(raw)
    except (SettingsError, FactsError) as error:
        raise pulumi.RunError(str(error)) from None
    for name, value in told.items():
        pulumi.export(name, value)


def _in_aws(raw: RawStack) -> Mapping[str, object]:
    settings, facts = settings_and_facts(raw)
    return build(settings, facts, reach=must_be_reachable)


def _in_existing_cluster(raw: RawStack) -> Mapping[str, object]:
    settings, facts = existing.settings_and_facts(raw)
    return existing_program.build(settings, facts)


def build(settings: Settings, facts: Facts, *, reach: Check = assume_reachable) -> Mapping[str, object]:
    """Create everything and tell what there is."""
    return _eks(settings, facts, reach) if settings.is_eks else _ec2(settings, facts)


@dataclass(frozen=True)
class Foundation:
    """What every cluster stands on, with Kubernetes or without."""

    naming: Naming
    account: Account
    logs_key: EncryptionKey
    network: Subnets
    nodes: NodeSecurityGroup
    endpoints: Sequence[pulumi.Resource]
    storage: SharedStorage | None
    keys: KeyBucket


def _foundation(settings: Settings, facts: Facts) -> Foundation:
    naming = Naming(settings.stack, settings.cost_center, settings.tags)
    account = Account(facts.caller.account, facts.region, facts.partition)
    logs = [naming.control_plane_logs, naming.flow_logs] if settings.is_eks else [naming.flow_logs]
    logs_policy = policies.to_json(policies.logs_key(account, logs))
    logs_key = EncryptionKey(naming.name("logs-key"), EncryptionKeyArgs(naming, "logs", logs_policy))
    network = _network(settings, facts, naming, account, logs_key)
    nodes = NodeSecurityGroup(
        naming.name("nodes"),
        NodeSecurityGroupArgs(naming, network.vpc_id, network.reachable_cidrs, network.reachable_prefix_lists),
    )
    endpoints = _private_endpoints(settings, naming, network, nodes)
    storage = _shared_storage(settings, naming, account, network, nodes)
    keys = KeyBucket(naming.name("keys"), KeyBucketArgs(naming))
    return Foundation(naming, account, logs_key, network, nodes, endpoints, storage, keys)


def _eks(settings: Settings, facts: Facts, reach: Check) -> Mapping[str, object]:
    """What does not need the control plane is made while EKS makes it."""
    base = _foundation(settings, facts)
    naming, account = base.naming, base.account
    addons = {**versions.addon_versions(settings.eks.kubernetes_version), **settings.eks.addon_versions}
    role = NodeRole(naming.name("node"), NodeRoleArgs(naming, account, base.keys.arn))

    cluster = EksCluster(naming.name("cluster"), _cluster_args(settings, facts, base))
    first = EksAddons(naming.name("addon"), EksAddonsArgs(naming, account, cluster.name, needed_by_nodes(addons)))
    before_nodes = [*base.network.routes, *base.endpoints, *role.attachments, *first.addons]

    plans = pools.plan(settings, facts)
    groups = {plan.spec.name: _node_pool(plan, base, role, cluster, before_nodes) for plan in plans.values()}
    system, later = settings.eks.system.name, run_on_nodes(addons, shared_storage=base.storage is not None)
    EksAddons(naming.name("service"), EksAddonsArgs(naming, account, cluster.name, later, after=[groups[system].node_group]))
    roles = PodRoles(_job_roles(settings, base, cluster), _autoscaler_role(settings, naming, account, cluster))
    description = describe(settings, plans)
    _platform(settings, facts, base, description, cluster, groups[system], roles, reach)
    return {
        **outputs.cluster(cluster, name=naming.cluster, stack=settings.stack, region=settings.region),
        **outputs.network(base.network, base.nodes),
        **outputs.storage(base.storage, base.keys),
        "pools": [outputs.pool(plans[pool.name], groups[pool.name]) for pool in settings.pools],
        "systemPool": outputs.pool(plans[system], groups[system]),
        "platform": outputs.platform(description, installed=settings.installs_platform),
    }


def _ec2(settings: Settings, facts: Facts) -> Mapping[str, object]:
    """Network and storage as for EKS, and instead of a control plane a master."""
    base = _foundation(settings, facts)
    plan = plain.plan(settings, facts)
    cluster = Ec2Cluster(base.naming.name("cluster"), _plain_args(settings, plan, base))
    return {
        **outputs.plain_cluster(cluster, plan, name=base.naming.cluster, stack=settings.stack, region=settings.region),
        **outputs.network(base.network, base.nodes),
        **outputs.storage(base.storage, base.keys),
        "user": settings.ec2.user,
    }


# --- choices -----------------------------------------------------------------------------------------------------------


def _network(settings: Settings, facts: Facts, naming: Naming, account: Account, logs_key: EncryptionKey) -> Subnets:
    """The stack's own network, or the one that settings name."""
    asked = settings.network
    if asked.vpc_id is not None:
        return ExistingNetwork(asked.vpc_id, subnets_by_zone(settings, facts))
    args = NetworkArgs(
        naming,
        account,
        cidr=asked.new_cidr,
        zones=vpc_zones(settings, facts),
        nat_zones=nat_zones(settings, facts),
        logs_key_arn=logs_key.arn,
        log_retention_days=settings.target.log_retention_days,
    )
    return Network(naming.name("network"), args)


def _private_endpoints(
    settings: Settings, naming: Naming, network: Subnets, nodes: NodeSecurityGroup
) -> Sequence[pulumi.Resource]:
    """Endpoints inside the VPC where the user asks for them; never in a VPC of somebody else."""
    if settings.network.is_existing or not settings.network.has_interface_endpoints:
        return ()
    args = PrivateEndpointsArgs(
        naming,
        settings.region,
        network.vpc_id,
        _flat(network.private_subnets),
        nodes.id,
        services=FOR_EKS if settings.is_eks else FOR_EC2,
    )
    return PrivateEndpoints(naming.name("endpoint"), args).endpoints


def _shared_storage(
    settings: Settings, naming: Naming, account: Account, network: Subnets, nodes: NodeSecurityGroup
) -> SharedStorage | None:
    efs = settings.storage.efs
    if efs == "none":
        return None
    new = NewFileSystem(
        vpc_id=network.vpc_id,
        subnets={zone: subnets[0] for zone, subnets in network.private_subnets.items()},
        client_security_group_id=nodes.id,
        infrequent_access_after_days=efs.infrequent_access_after_days,
        backup=bool(efs.backup),
        protect=efs.protect,
    )
    return SharedStorage(naming.name("storage"), SharedStorageArgs(naming, account, efs.file_system_id or new))


def _cluster_args(settings: Settings, facts: Facts, base: Foundation) -> EksClusterArgs:
    target, caller = settings.eks, facts.caller.principal_arn
    return EksClusterArgs(
        base.naming,
        base.account,
        version=target.kubernetes_version,
        service_cidr=SERVICE_CIDR,
        subnet_ids=_flat({zone: base.network.private_subnets[zone] for zone in control_plane_zones(settings, facts)}),
        # the caller too: the same `pulumi up` goes on to install what runs in the cluster
        admins=sorted({*target.admins, *([caller] if caller else [])}),
        public_cidrs=target.endpoint_access.public_cidrs if target.endpoint_access.is_public else (),
        logs_key_arn=base.logs_key.arn,
        log_retention_days=target.log_retention_days,
        deletion_protection=target.deletion_protection,
    )


def _plain_args(settings: Settings, plan: PlainPlan, base: Foundation) -> Ec2ClusterArgs:
    efs, storage = settings.storage.efs, base.storage
    public, private = base.network.public_subnets, base.network.private_subnets[plan.zone]
    placement = _placement(plan.workers.pool, plan.zone, base.naming) if plan.makes_placement_group else None
    return Ec2ClusterArgs(
        base.naming,
        base.account,
        plan.master,
        plan.workers,
        master_slots=plan.master_slots,
        master_idle_slots=plan.master_type.slots,
        worker_slots=plan.worker_type.slots,
        user=settings.ec2.user,
        public_keys=settings.ec2.ssh.public_keys,
        key_bucket=base.keys.name,
        key_bucket_arn=base.keys.arn,
        storage=Storage(storage.file_system_id, storage.access_point_id, efs.mount_path) if storage and efs != "none" else None,
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


def _node_pool(
    plan: PoolPlan, base: Foundation, role: NodeRole, cluster: EksCluster, after: Sequence[pulumi.Resource]
) -> NodePool:
    name = plan.spec.name
    placement = _placement(name, plan.zones[0], base.naming) if plan.makes_placement_group else None
    args = NodePoolArgs(
        base.naming,
        plan.spec,
        cluster,
        node_role_arn=role.arn,
        node_security_group_id=base.nodes.id,
        subnet_ids=[base.network.private_subnets[zone][0] for zone in plan.zones],
        placement_group=placement.group_name if placement else plan.own_placement_group,
        after=[*after, *([placement.group] if placement else [])],  # a node group that goes, goes before its placement group
    )
    return NodePool(base.naming.name(name), args)


def _placement(pool: str, zone: str, naming: Naming) -> Placement:
    """A new placement group. It is in one zone as long as it holds a node: a pool in another zone needs another."""
    return Placement(naming.name(f"{pool}-{zone}-placement-group"), PlacementArgs(naming))


@dataclass(frozen=True)
class PodRoles:
    """What pods may do in AWS."""

    jobs: Sequence[PodRole]
    autoscaler: PodRole | None


def _job_roles(settings: Settings, base: Foundation, cluster: EksCluster) -> list[PodRole]:
    naming, account = base.naming, base.account
    roles: list[PodRole] = []
    for namespace in settings.platform.namespaces:
        args = PodRoleArgs(
            naming,
            description=f"Job pods of {naming.cluster} in {namespace}: exchange of public SSH keys",
            cluster_arn=account.arn("eks", f"cluster/{naming.cluster}"),
            namespace=namespace,
            service_account=JOB_SERVICE_ACCOUNT,
            policy=base.keys.arn.apply(lambda arn: policies.to_json(policies.exchange_job_keys(arn))),
            cluster_name=cluster.name,
        )
        roles.append(PodRole(naming.name(f"{namespace}-job"), args))
    return roles


def _autoscaler_role(settings: Settings, naming: Naming, account: Account, cluster: EksCluster) -> PodRole | None:
    if not settings.platform.autoscaler:
        return None
    args = PodRoleArgs(
        naming,
        description=f"Cluster autoscaler of {naming.cluster}",
        cluster_arn=account.arn("eks", f"cluster/{naming.cluster}"),
        namespace=KUBE_SYSTEM,
        service_account=AUTOSCALER_ACCOUNT,
        policy=policies.to_json(policies.scale_groups(account, naming.cluster, AUTOSCALER_TAG)),
        cluster_name=cluster.name,
    )
    return PodRole(naming.name("autoscaler"), args)


def _platform(
    settings: Settings,
    facts: Facts,
    base: Foundation,
    description: ClusterDescription,
    cluster: EksCluster,
    system: NodePool,
    roles: PodRoles,
    reach: Check,
) -> None:
    """What runs in the cluster. The module loads pulumi_kubernetes, for which a stack without a platform need not wait."""
    if not settings.installs_platform:
        return
    from infra.platform.install import AutoscalerWanted, JobKeys, Parts, Platform, PlatformArgs
    from infra.platform.shared_volume import EfsVolume

    wanted, naming, storage, scaler = settings.platform, base.naming, base.storage, roles.autoscaler
    has_efa = wanted.efa_plugin and any(pool.efa for pool in description.pools)
    args = PlatformArgs(
        naming,
        settings.eks.kubernetes_version,
        kubeconfig=outputs.reached_kubeconfig(cluster, name=naming.cluster, region=settings.region, reach=reach),
        parts=Parts(
            device_plugin=wanted.device_plugin,
            mpi_operator=wanted.mpi_operator,
            queue=wanted.queue,
            strict_queue=wanted.queue_order == "strict",
        ),
        manifests=facts.manifests,
        description=description,
        efa_registry=eks_registry(settings.region) if has_efa else None,
        volume=EfsVolume(storage.file_system_id, storage.access_point_id) if storage else None,
        access=cluster.access,
        system_nodes=(system.node_group,),
        autoscaler=AutoscalerWanted(settings.region, wanted.idle_minutes, scaler.association) if scaler else None,
        job_keys=JobKeys(base.keys.name, roles.jobs),
        jobs=settings.jobs,
    )
    Platform(naming.name("platform"), args)


def _flat(subnets: Mapping[str, Sequence[pulumi.Input[str]]]) -> list[pulumi.Input[str]]:
    return [subnet for in_zone in subnets.values() for subnet in in_zone]
