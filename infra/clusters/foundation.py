"""Resources that EKS and EC2 clusters share: network, storage, keys."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pulumi

from infra.components import iam
from infra.components.encryption_key import EncryptionKey
from infra.components.file_system import FileSystem, FileSystemArgs
from infra.components.iam import Account
from infra.components.key_bucket import KeyBucket
from infra.components.lustre_storage import LustreStorage
from infra.components.network import Network, NetworkArgs, Subnets
from infra.components.node_security_group import NodeSecurityGroup, NodeSecurityGroupArgs
from infra.components.placement import Placement
from infra.components.private_endpoints import PrivateEndpoints, PrivateEndpointsArgs
from infra.components.shared_storage import SharedStorage
from infra.facts.model import Facts
from infra.naming import Naming
from infra.plan.aws_services import find_endpoint_names
from infra.plan.placement import choose_nat_zones, group_subnets_by_zone, list_vpc_zones
from infra.plan.specs import ExistingLustreSpec, ExistingSpec, NewEfsSpec, NewLustreSpec
from infra.plan.storage import plan_storage
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
    file_systems: Sequence[FileSystem]
    keys: KeyBucket


def create_foundation(settings: Settings, facts: Facts) -> Foundation:
    naming = Naming(settings.stack, settings.cost_center, settings.tags)
    account = Account(facts.caller.account, facts.region, facts.partition)
    logs_policy = iam.to_json(iam.build_logs_key_policy(account, _list_log_group_names(settings, naming)))
    logs_key = EncryptionKey(naming.name("logs-key"), naming, "logs", logs_policy)
    network = _create_or_find_subnets(settings, facts, naming, account, logs_key)
    nodes = NodeSecurityGroup(
        naming.name("nodes"),
        NodeSecurityGroupArgs(naming, network.vpc_id, network.reachable_cidrs, network.reachable_prefix_lists),
    )
    endpoints = _create_private_endpoints(settings, naming, network, nodes, services=find_endpoint_names(settings, facts))
    file_systems = tuple(_create_file_systems(settings, facts, naming, account, network, nodes))
    keys = KeyBucket(naming.name("keys"), naming)
    return Foundation(naming, account, logs_key, network, nodes, endpoints, file_systems, keys)


def _list_log_group_names(settings: Settings, naming: Naming) -> list[str]:
    if not settings.is_eks:
        return [naming.flow_logs]
    jobs = [naming.job_logs] if settings.platform.keeps_logs_in_cloudwatch else []
    return [naming.control_plane_logs, naming.flow_logs, *jobs]


def _create_or_find_subnets(
    settings: Settings, facts: Facts, naming: Naming, account: Account, logs_key: EncryptionKey
) -> Subnets:
    """Create the VPC, or use the one named in the settings."""
    network = settings.network
    if network.vpc_id is not None:
        return Subnets(network.vpc_id, group_subnets_by_zone(settings, facts))
    args = NetworkArgs(
        naming,
        account,
        cidr=network.new_cidr,
        zones=list_vpc_zones(settings, facts),
        nat_zones=choose_nat_zones(settings, facts),
        logs_key_arn=logs_key.arn,
        log_retention_days=settings.target.log_retention_days,
    )
    return Network(naming.name("network"), args).subnets


def _create_private_endpoints(
    settings: Settings, naming: Naming, network: Subnets, nodes: NodeSecurityGroup, *, services: Mapping[str, str]
) -> Sequence[pulumi.Resource]:
    if not services:
        return ()
    args = PrivateEndpointsArgs(
        naming,
        network.vpc_id,
        subnet_ids=flatten_subnets(network.private_subnets),
        client_security_group_id=nodes.id,
        client_cidrs=settings.target.private_cidrs,
        services=services,
    )
    return PrivateEndpoints(naming.name("endpoint"), args).endpoints


def _create_file_systems(
    settings: Settings, facts: Facts, naming: Naming, account: Account, network: Subnets, nodes: NodeSecurityGroup
) -> Iterator[FileSystem]:
    args = FileSystemArgs(naming, account, network.vpc_id, network.private_subnets, nodes.id)
    for spec in plan_storage(settings, facts):
        match spec:
            case NewLustreSpec() | ExistingLustreSpec():
                yield LustreStorage(naming.name("lustre"), spec, args)
            case NewEfsSpec() | ExistingSpec():
                yield SharedStorage(naming.name("storage"), spec, args)


def create_placement_group(pool: str, zone: str, naming: Naming) -> Placement:
    """Create a placement group. While a placement group contains a node, the group is bound to the node's zone, so a pool in
    another zone needs another group."""
    return Placement(naming.name(f"{pool}-{zone}-placement-group"), naming)


def flatten_subnets(subnets: Mapping[str, Sequence[pulumi.Input[str]]]) -> list[pulumi.Input[str]]:
    return [subnet for in_zone in subnets.values() for subnet in in_zone]
