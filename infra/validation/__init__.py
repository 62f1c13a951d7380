"""Rules that a stack must satisfy: pure functions of settings and facts. Every run reports all problems at once."""

from collections.abc import Callable, Iterator
from datetime import date

from infra.config.problems import Problem, without_echoes
from infra.facts.model import Facts
from infra.settings.stack import Settings
from infra.validation import (
    access,
    budget,
    capacity,
    capacity_blocks,
    cluster,
    ec2_cluster,
    encryption,
    endpoints,
    jobs,
    labels,
    lustre,
    moves,
    names,
    network,
    node_types,
    platform,
    pools,
    quotas,
    sizes,
    storage,
    subnets,
    tags,
    zones,
)

__all__ = ["Problem", "check", "check_offline"]

Offline = tuple[Callable[[Settings], Iterator[Problem]], ...]
WithFacts = tuple[Callable[[Settings, Facts], Iterator[Problem]], ...]

OFFLINE: Offline = (
    names.region,
    names.stack,
    network.new_or_existing,
    network.cidr,
    network.zones,
    network.route_out,
    network.ids_of_network,
    storage.mount_path,
    storage.new_or_existing,
    lustre.mount_path,
    lustre.new_or_existing,
    lustre.capacity,
    lustre.key,
    lustre.data_repository,
    names.pools,
    sizes.pools,
    pools.root_volume,
    pools.zones_of_network,
    capacity.one_source,
    capacity.no_placement_group,
    tags.cost_center,
    tags.extra,
)
"""Rules for all AWS stacks, both EKS and EC2 clusters."""

OFFLINE_EKS: Offline = (
    cluster.known_version,
    cluster.known_addons,
    cluster.log_retention,
    lustre.kubernetes_version,
    access.public_endpoint,
    access.public_cidrs,
    access.private_cidrs,
    access.someone_reaches_api,
    access.admins,
    sizes.system,
    pools.image_ids,
    labels.pools,
    platform.namespaces,
    platform.cpu_requests,
    platform.idle_minutes,
    platform.job_policies,
    platform.will_be_installed,
    platform.image_registry,
    platform.image_repository,
    platform.image_repositories,
    platform.image_pull_secrets,
    platform.manifest_mirror,
    platform.monitoring,
    jobs.need_the_platform,
    jobs.unique,
)

OFFLINE_EC2: Offline = (
    ec2_cluster.without_kubernetes,
    ec2_cluster.one_pool,
    ec2_cluster.login,
    ec2_cluster.public_keys,
    ec2_cluster.ssh_cidrs,
    ec2_cluster.ami_id,
    ec2_cluster.log_retention,
)

WITH_FACTS: WithFacts = (
    network.zones_exist,
    endpoints.offered,
    subnets.existing_vpc,
    subnets.existing_subnets,
    subnets.routes_out,
    subnets.enough_addresses,
    storage.existing_file_system,
    storage.nodes_can_mount,
    lustre.existing_file_system,
    lustre.nodes_can_mount,
    lustre.own_file_system,
    lustre.usable_key,
    lustre.bucket,
    pools.types_exist,
    pools.types_have_gpus,
    node_types.supported,
    pools.efa,
    pools.placement_groups,
    pools.stale_placement,
    zones.of_pools,
    capacity.purchase,
    capacity.reservations,
    capacity.reservation_sizes,
    quotas.enough,
    encryption.default_key,
    budget.within,
)

WITH_FACTS_EKS: WithFacts = (
    access.caller,
    access.admins_exist,
    quotas.node_groups,
    cluster.offered_version,
    cluster.offered_addons,
    moves.vpc,
    moves.zones,
    capacity_blocks.with_nodes,
    pools.images,
    pools.architectures,
    node_types.launchers,
    node_types.workers,
    zones.of_system,
    platform.reachable,
    platform.manifests,
    jobs.in_cluster,
)

WITH_FACTS_EC2: WithFacts = (ec2_cluster.ami, lustre.ami, ec2_cluster.head_node_zone)


def check_offline(settings: Settings, today: date | None = None) -> list[Problem]:
    """Return the errors and warnings that can be found in the stack file alone. Without a date, skip the rules that
    depend on it."""
    rules = (*OFFLINE, *(OFFLINE_EKS if settings.is_eks else OFFLINE_EC2))
    problems = [problem for rule in rules for problem in rule(settings)]
    if settings.is_eks and today is not None:
        problems += cluster.standard_support(settings, today)
    return without_echoes(problems)


def check(settings: Settings, facts: Facts) -> list[Problem]:
    """Return all errors and warnings."""
    found = check_offline(settings, facts.today)
    wrong = {problem.path for problem in found if problem.is_error}  # ignore what AWS reports about malformed values
    rules = (*WITH_FACTS, *(WITH_FACTS_EKS if settings.is_eks else WITH_FACTS_EC2))
    found += [problem for rule in rules for problem in rule(settings, facts) if problem.path not in wrong]
    return without_echoes(found)
