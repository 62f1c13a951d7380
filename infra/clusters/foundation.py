"""Resources that EKS and EC2 clusters share: network, storage, keys."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi

from infra.components import iam
from infra.components.encryption_key import EncryptionKey, EncryptionKeyArgs
from infra.components.iam import Account
from infra.components.key_bucket import KeyBucket, KeyBucketArgs
from infra.components.lustre_storage import ExistingLustre, LinkedBucket, LustreStorage, LustreStorageArgs, NewLustre, UserKey
from infra.components.network import Network, NetworkArgs, Subnets
from infra.components.node_security_group import NodeSecurityGroup, NodeSecurityGroupArgs
from infra.components.placement import Placement, PlacementArgs
from infra.components.private_endpoints import PrivateEndpoints, PrivateEndpointsArgs
from infra.components.shared_storage import ExistingFileSystem, NewFileSystem, SharedStorage, SharedStorageArgs
from infra.facts import Facts
from infra.naming import Naming
from infra.plan import lustre as lustre_plan
from infra.plan.aws_services import endpoint_names
from infra.plan.mount_targets import groups_to_open
from infra.plan.placement import nat_zones, subnets_by_zone, vpc_zones
from infra.settings.stack import Settings
from infra.settings.storage import Fsx


@dataclass(frozen=True)
class Foundation:
    """Resources that EKS and EC2 clusters share."""

    naming: Naming
    account: Account
    logs_key: EncryptionKey
    network: Subnets
    nodes: NodeSecurityGroup
    endpoints: Sequence[pulumi.Resource]
    storage: SharedStorage | None
    lustre: LustreStorage | None
    keys: KeyBucket


def create_foundation(settings: Settings, facts: Facts) -> Foundation:
    naming = Naming(settings.stack, settings.cost_center, settings.tags)
    account = Account(facts.caller.account, facts.region, facts.partition)
    logs_policy = iam.to_json(iam.logs_key(account, _log_groups(settings, naming)))
    logs_key = EncryptionKey(naming.name("logs-key"), EncryptionKeyArgs(naming, "logs", logs_policy))
    network = _network(settings, facts, naming, account, logs_key)
    nodes = NodeSecurityGroup(
        naming.name("nodes"),
        NodeSecurityGroupArgs(naming, network.vpc_id, network.reachable_cidrs, network.reachable_prefix_lists),
    )
    endpoints = _private_endpoints(settings, naming, network, nodes, services=endpoint_names(settings, facts))
    storage = _shared_storage(settings, facts, naming, account, network, nodes)
    lustre = _lustre(settings, facts, naming, account, network, nodes)
    keys = KeyBucket(naming.name("keys"), KeyBucketArgs(naming))
    return Foundation(naming, account, logs_key, network, nodes, endpoints, storage, lustre, keys)


def _log_groups(settings: Settings, naming: Naming) -> list[str]:
    if not settings.is_eks:
        return [naming.flow_logs]
    jobs = [naming.job_logs] if settings.platform.keeps_logs_in_cloudwatch else []
    return [naming.control_plane_logs, naming.flow_logs, *jobs]


def _network(settings: Settings, facts: Facts, naming: Naming, account: Account, logs_key: EncryptionKey) -> Subnets:
    """Create the VPC, or use the one named in the settings."""
    network = settings.network
    if network.vpc_id is not None:
        return Subnets(network.vpc_id, subnets_by_zone(settings, facts))
    args = NetworkArgs(
        naming,
        account,
        cidr=network.new_cidr,
        zones=vpc_zones(settings, facts),
        nat_zones=nat_zones(settings, facts),
        logs_key_arn=logs_key.arn,
        log_retention_days=settings.target.log_retention_days,
    )
    return Network(naming.name("network"), args).subnets


def _private_endpoints(
    settings: Settings, naming: Naming, network: Subnets, nodes: NodeSecurityGroup, *, services: Mapping[str, str]
) -> Sequence[pulumi.Resource]:
    if not services:
        return ()
    args = PrivateEndpointsArgs(
        naming,
        network.vpc_id,
        subnet_ids=flatten(network.private_subnets),
        client_security_group_id=nodes.id,
        client_cidrs=settings.target.private_cidrs,
        services=services,
    )
    return PrivateEndpoints(naming.name("endpoint"), args).endpoints


def _shared_storage(
    settings: Settings, facts: Facts, naming: Naming, account: Account, network: Subnets, nodes: NodeSecurityGroup
) -> SharedStorage | None:
    efs = settings.storage.efs
    if efs == "none":
        return None
    if efs.file_system_id is not None:
        existing = ExistingFileSystem(efs.file_system_id, groups_to_open(settings, facts), nodes.id)
        return SharedStorage(naming.name("storage"), SharedStorageArgs(naming, account, existing))
    new = NewFileSystem(
        vpc_id=network.vpc_id,
        subnets={zone: subnets[0] for zone, subnets in network.private_subnets.items()},
        client_security_group_id=nodes.id,
        infrequent_access_after_days=efs.infrequent_access_after_days,
        backup=bool(efs.backup),
        protect=efs.protect,
    )
    return SharedStorage(naming.name("storage"), SharedStorageArgs(naming, account, new))


def _lustre(
    settings: Settings, facts: Facts, naming: Naming, account: Account, network: Subnets, nodes: NodeSecurityGroup
) -> LustreStorage | None:
    spec, existing = settings.storage.lustre, facts.lustre
    if spec is None:
        return None
    source: NewLustre | ExistingLustre
    if existing is not None:
        group = lustre_plan.group_to_open(settings, facts)
        source = ExistingLustre(existing.id, existing.dns_name, existing.mount_name, group, nodes.id)
    else:
        source = _new_lustre(settings, facts, spec, network, nodes)
    return LustreStorage(naming.name("lustre"), LustreStorageArgs(naming, account, source))


def _new_lustre(settings: Settings, facts: Facts, spec: Fsx, network: Subnets, nodes: NodeSecurityGroup) -> NewLustre:
    zone = lustre_plan.zone(settings, facts)
    if zone is None:
        raise LookupError("the Lustre file system has no zone; validation should have reported that")
    linked = spec.data_repository
    return NewLustre(
        vpc_id=network.vpc_id,
        subnet_id=lustre_plan.subnet(settings, facts) or network.private_subnets[zone][0],
        client_security_group_id=nodes.id,
        deployment=spec.deployment or "PERSISTENT_2",
        size_gib=spec.size_gib or lustre_plan.SMALLEST_GIB,
        throughput_per_tib=(spec.throughput_per_tib or lustre_plan.THROUGHPUT) if spec.is_persistent else None,
        compression=spec.compression is not False,
        key=UserKey(spec.kms_key_arn) if spec.kms_key_arn else "own" if spec.is_persistent else "aws",
        linked=LinkedBucket(linked.path, linked.directory, linked.auto_import, linked.auto_export) if linked else None,
        protect=spec.protect,
    )


def create_placement(pool: str, zone: str, naming: Naming) -> Placement:
    """Create a placement group. While a group contains a node, the group is bound to the node's zone, so a pool in
    another zone needs another group."""
    return Placement(naming.name(f"{pool}-{zone}-placement-group"), PlacementArgs(naming))


def flatten(subnets: Mapping[str, Sequence[pulumi.Input[str]]]) -> list[pulumi.Input[str]]:
    return [subnet for in_zone in subnets.values() for subnet in in_zone]
