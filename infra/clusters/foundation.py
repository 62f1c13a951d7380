"""Resources that EKS and EC2 clusters share: network, storage, keys."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi

from infra.components import iam
from infra.components.encryption_key import EncryptionKey, EncryptionKeyArgs
from infra.components.iam import Account
from infra.components.key_bucket import KeyBucket, KeyBucketArgs
from infra.components.network import ExistingNetwork, Network, NetworkArgs, Subnets
from infra.components.node_security_group import NodeSecurityGroup, NodeSecurityGroupArgs
from infra.components.placement import Placement, PlacementArgs
from infra.components.private_endpoints import PrivateEndpoints, PrivateEndpointsArgs
from infra.components.shared_storage import NewFileSystem, SharedStorage, SharedStorageArgs
from infra.facts import Facts
from infra.naming import Naming
from infra.plan.aws_services import FOR_EC2, FOR_EKS
from infra.plan.placement import nat_zones, subnets_by_zone, vpc_zones
from infra.settings.stack import Settings


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
    keys: KeyBucket


def create_foundation(settings: Settings, facts: Facts) -> Foundation:
    naming = Naming(settings.stack, settings.cost_center, settings.tags)
    account = Account(facts.caller.account, facts.region, facts.partition)
    logs = [naming.control_plane_logs, naming.flow_logs] if settings.is_eks else [naming.flow_logs]
    logs_policy = iam.to_json(iam.logs_key(account, logs))
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


def _network(settings: Settings, facts: Facts, naming: Naming, account: Account, logs_key: EncryptionKey) -> Subnets:
    """Create the VPC, or use the one named in the settings."""
    wanted = settings.network
    if wanted.vpc_id is not None:
        return ExistingNetwork(wanted.vpc_id, subnets_by_zone(settings, facts))
    args = NetworkArgs(
        naming,
        account,
        cidr=wanted.new_cidr,
        zones=vpc_zones(settings, facts),
        nat_zones=nat_zones(settings, facts),
        logs_key_arn=logs_key.arn,
        log_retention_days=settings.target.log_retention_days,
    )
    return Network(naming.name("network"), args)


def _private_endpoints(
    settings: Settings, naming: Naming, network: Subnets, nodes: NodeSecurityGroup
) -> Sequence[pulumi.Resource]:
    """Create interface endpoints if the settings require them, but never in an existing VPC."""
    if settings.network.is_existing or not settings.network.has_interface_endpoints:
        return ()
    args = PrivateEndpointsArgs(
        naming,
        settings.region,
        network.vpc_id,
        flatten(network.private_subnets),
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


def create_placement(pool: str, zone: str, naming: Naming) -> Placement:
    """Create a placement group. While a group contains a node, it is bound to the node's zone, so a pool in another
    zone needs another group."""
    return Placement(naming.name(f"{pool}-{zone}-placement-group"), PlacementArgs(naming))


def flatten(subnets: Mapping[str, Sequence[pulumi.Input[str]]]) -> list[pulumi.Input[str]]:
    return [subnet for in_zone in subnets.values() for subnet in in_zone]
