"""Rules for purchase options, capacity reservations and Capacity Blocks of pools."""

import re
from collections import defaultdict
from collections.abc import Iterator

from infra.config.messages import format_value, join_with_and, join_with_or
from infra.config.problems import Problem, create_warning
from infra.facts.model import CapacityReservation, ExistingPool, Facts
from infra.facts.queries import Query
from infra.plan.eks_pools import list_template_changes, plan_pools
from infra.plan.placement import find_bound_zone
from infra.plan.specs import DRAIN_BEFORE_END
from infra.settings.pools import CapacityBlock, Pool, Spot, TargetedOdcr
from infra.settings.stack import Settings
from infra.validation.formats import check_id_format
from infra.validation.pool_paths import format_account, list_pools_with_paths, list_pools_with_types
from infra.validation.registry import EKS, Topic, register_rule

_GROUP = re.compile(r"arn:aws[a-z-]*:resource-groups:[a-z0-9-]+:[0-9]{12}:group/[A-Za-z0-9_.-]+")

# https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CapacityReservation.html
_USABLE = {"active", "pending", "scheduled", "assessing", "delayed", "payment-pending"}


@register_rule()
def check_reservation_settings(settings: Settings) -> Iterator[Problem]:
    for path, pool in list_pools_with_paths(settings):
        where, capacity = f"{path}.capacity", pool.capacity
        if isinstance(capacity, TargetedOdcr):
            if capacity.reservation_id is None and capacity.resource_group_arn is None:
                yield Problem(where, "names no reservation. Add reservationId or resourceGroupArn.")
            if capacity.reservation_id is not None and capacity.resource_group_arn is not None:
                yield Problem(where, "names both a reservation and a resource group. Remove one of them.")
            group = capacity.resource_group_arn
            if group is not None and not _GROUP.fullmatch(group):
                example = "arn:aws:resource-groups:us-west-2:123456789012:group/gpus"
                yield Problem(
                    f"{where}.resourceGroupArn",
                    f"{format_value(group)} is not the ARN of a resource group. Use one such as {example}.",
                )
        if pool.reservation_id is not None:
            yield from check_id_format(f"{where}.reservationId", "cr", pool.reservation_id)


@register_rule()
def check_reserved_placement_groups(settings: Settings) -> Iterator[Problem]:
    """Reject placement groups for Capacity Blocks and for resource groups of reservations: the reservations themselves
    determine where instances run."""
    for path, pool in list_pools_with_paths(settings):
        is_single = isinstance(pool.capacity, TargetedOdcr) and pool.capacity.reservation_id is not None
        if pool.own_placement_group and pool.is_reserved and not is_single:
            yield _reject_placement_group(path, pool)


def _reject_placement_group(path: str, pool: Pool) -> Problem:
    fix = "Remove it: the reservation determines where the instances run."
    return Problem(
        f"{path}.placementGroup", f"{format_value(pool.own_placement_group)} cannot hold the reserved instances. {fix}"
    )


@register_rule(Topic.TYPES, reads=(Query.INSTANCE_TYPES,))
def check_purchase_option(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """Check that AWS sells the instance type with the chosen purchase option."""
    for path, pool, instance_type in list_pools_with_types(settings, facts):
        option = {Spot: "spot", CapacityBlock: "capacity-block"}.get(type(pool.capacity), "on-demand")
        if instance_type.usage_classes and option not in instance_type.usage_classes:
            fix = f"Use {join_with_or(sorted(instance_type.usage_classes))}."
            yield Problem(f"{path}.capacity.kind", f"{pool.instance_type} is not sold as {option}. {fix}")


def _has_reservation(settings: Settings) -> bool:
    return any(pool.is_reserved for pool in settings.pools)


@register_rule(Topic.RESERVATIONS, reads=(Query.RESERVATIONS,), applies=_has_reservation)
def check_reservations(settings: Settings, facts: Facts) -> Iterator[Problem]:
    for path, pool in list_pools_with_paths(settings):
        where = f"{path}.capacity.reservationId"
        if pool.reservation_id in facts.not_found:
            yield Problem(
                where,
                f"{format_value(pool.reservation_id)} does not exist in {format_account(facts)} "
                "and is not shared with the account",
            )
        reservation = facts.reservations.get(pool.reservation_id or "")
        if reservation:
            yield from _check_kind_and_state(path, pool, reservation)
            yield from _check_block_end(path, reservation)
            yield from _check_type_and_zone(path, pool, reservation, facts)
            yield from _check_reservation_group(path, pool, reservation)


def _check_kind_and_state(path: str, pool: Pool, reservation: CapacityReservation) -> Iterator[Problem]:
    if reservation.kind == "capacity-block" and not isinstance(pool.capacity, CapacityBlock):
        yield Problem(f"{path}.capacity.kind", f"{reservation.id} is a capacity block. Use capacity-block.")
    if reservation.kind == "default" and isinstance(pool.capacity, CapacityBlock):
        yield Problem(f"{path}.capacity.kind", f"{reservation.id} is not a capacity block. Use targeted-odcr.")
    if reservation.state not in _USABLE:
        yield Problem(f"{path}.capacity.reservationId", f"{reservation.id} is {reservation.state}. Use an active reservation.")


def _check_block_end(path: str, block: CapacityReservation) -> Iterator[Problem]:
    if block.kind != "capacity-block" or block.state != "active" or block.end is None:
        return
    if block.read_at >= block.end - DRAIN_BEFORE_END:
        ends = f"{block.id} ends at {block.end:%Y-%m-%d %H:%M} UTC: EC2 starts terminating its instances 30 minutes earlier"
        yield create_warning(f"{path}.capacity.reservationId", f"{ends}. Extend the block, or use another one.")


def _check_type_and_zone(path: str, pool: Pool, reservation: CapacityReservation, facts: Facts) -> Iterator[Problem]:
    where, zone = f"{path}.capacity.reservationId", find_bound_zone(pool, facts)
    if reservation.instance_type != pool.instance_type:
        reserved = f"{reservation.id} reserves {reservation.instance_type}"
        yield Problem(where, f"{reserved}, but the pool uses {pool.instance_type}. Use the same instance type for both.")
    if zone != reservation.zone and pool.zone is not None:
        yield Problem(
            f"{path}.zone",
            f"{format_value(zone)} is not the zone of {reservation.id}. Use {reservation.zone}, or remove the setting.",
        )
    elif zone != reservation.zone:
        fix = f"To recreate the pool, rename it or set zone: {reservation.zone}."
        yield Problem(where, f"{reservation.id} is in {reservation.zone}, but the pool is in {zone}. {fix}")


def _check_reservation_group(path: str, pool: Pool, reservation: CapacityReservation) -> Iterator[Problem]:
    """Check that the pool uses its reservation's placement group: a reservation that was created in a placement group
    serves only instances in that group."""
    if reservation.placement_group is None:
        if pool.own_placement_group:
            yield _reject_placement_group(path, pool)
    elif pool.own_placement_group != reservation.placement_group:
        fix = f"Set placementGroup: {reservation.placement_group}."
        yield Problem(f"{path}.placementGroup", f"{reservation.id} was created in a placement group. {fix}")


@register_rule(Topic.RESERVATIONS, reads=(Query.RESERVATIONS,), applies=_has_reservation)
def check_reservation_sizes(settings: Settings, facts: Facts) -> Iterator[Problem]:
    sharing: dict[str, list[tuple[str, Pool]]] = defaultdict(list)
    for path, pool in list_pools_with_paths(settings):
        if pool.reservation_id in facts.reservations:
            sharing[pool.reservation_id or ""].append((path, pool))
    for reservation_id, pools in sharing.items():
        reservation, (path, last) = facts.reservations[reservation_id], pools[-1]
        head_nodes = _count_head_nodes(settings, last)
        maximum = sum(pool.max_size for _, pool in pools) + head_nodes
        if maximum > reservation.total:
            names = join_with_and(pool.name for _, pool in pools)
            users = "" if len(pools) == 1 else f" for {names}, which can have {maximum} together"
            users += ", one of them for the head node" if head_nodes else ""
            have = f"{reservation_id} has {reservation.total} instances{users}"
            yield Problem(f"{path}.maxSize", f"{last.max_size} is too many: {have}. Lower it.")
        for path, pool in pools:
            yield from _check_first_nodes(path, pool, reservation, facts, head_nodes)


def _count_head_nodes(settings: Settings, pool: Pool) -> int:
    """Return the number of head nodes that use the workers' reservation: 1 if the head node has the workers' instance
    type, else 0."""
    return int(not settings.is_eks and settings.ec2.head_node_type == pool.instance_type)


def _check_first_nodes(
    path: str, pool: Pool, reservation: CapacityReservation, facts: Facts, head_nodes: int
) -> Iterator[Problem]:
    """Check that the reservation is active and has enough free instances for the first nodes of a new pool."""
    first, where = pool.initial_size, f"{path}.{'minSize' if pool.desired_size is None else 'desiredSize'}"
    if pool.name in facts.existing.pools or first + head_nodes == 0 or reservation.state not in _USABLE:
        return
    if reservation.state != "active":
        yield _reject_first_nodes(where, first, reservation, head_nodes)
    elif first + head_nodes > reservation.available and first + head_nodes <= reservation.total:
        free = f"{reservation.available} free instances in {reservation.id}"
        if reservation.available < head_nodes:
            yield Problem(
                "target.headNodeType",
                f"{format_value(pool.instance_type)} cannot start: {reservation.id} has no free instance. Choose another type.",
            )
            return
        nodes = f"{first} nodes and the head node" if head_nodes else f"{first} nodes"
        yield Problem(where, f"{nodes} exceed the {free}. Use at most {reservation.available - head_nodes}.")


def _reject_first_nodes(where: str, first: int, reservation: CapacityReservation, head_nodes: int) -> Problem:
    state = f"{reservation.id} is {reservation.state}"
    if head_nodes:  # the head node is created together with the cluster
        fix = "Create the cluster once the reservation is active, or choose another type: the head node then only launches jobs."
        return Problem("target.headNodeType", f"{format_value(reservation.instance_type)} cannot start while {state}. {fix}")
    return Problem(where, f"{first} nodes cannot start while {state}. Use 0 until the reservation is active.")


# --- "When upgrading managed node groups with Capacity Blocks, make sure that the desired size of the node group is set to
# 0": https://docs.aws.amazon.com/eks/latest/userguide/capacity-blocks-mng.html


@register_rule(Topic.RESERVATIONS, target=EKS, reads=(Query.EKS_CLUSTER, Query.RESERVATIONS), applies=_has_reservation)
def check_block_upgrades(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """Reject an upgrade of a node group that has nodes in a Capacity Block: EKS would terminate nodes in the Capacity
    Block and could not launch replacements."""
    running = [
        (path, pool, existing)
        for path, pool in list_pools_with_paths(settings)
        if (existing := _find_pool_running_in_block(pool, facts))
    ]
    if not running:
        return
    try:
        plans = plan_pools(settings, facts)
    except LookupError:  # another rule reports the reason
        return
    version = settings.eks.kubernetes_version
    for path, pool, existing in running:
        count = f"{existing.desired_size} node{'' if existing.desired_size == 1 else 's'}"
        nodes = f"{pool.name} has {count} in a Capacity Block"
        fix = f"EKS can upgrade such a pool only at size 0. First run `{_format_scale_to_zero(settings, facts, existing)}`."
        differing = list_template_changes(plans[pool.name].spec, existing.block_template) if existing.block_template else []
        if differing:
            yield Problem(path, f"{nodes}, and `pulumi up` would change {join_with_and(differing)} in the launch template. {fix}")
        if pool.ami_id is None and existing.version not in (None, version):
            yield Problem("target.kubernetesVersion", f'"{version}" would upgrade all pools, but {nodes}. {fix}')


def _find_pool_running_in_block(pool: Pool, facts: Facts) -> ExistingPool | None:
    """Return the pool's existing node group, if it has nodes in a Capacity Block and the stack keeps the group."""
    existing = facts.existing.pools.get(pool.name)
    if existing is None or existing.block_template is None or existing.failed or not existing.desired_size:
        return None
    return existing if isinstance(pool.capacity, CapacityBlock) else None


def _format_scale_to_zero(settings: Settings, facts: Facts, existing: ExistingPool) -> str:
    group = f"--region {facts.region} --cluster-name {settings.cluster_name} --nodegroup-name {existing.node_group}"
    return f"aws eks update-nodegroup-config {group} --scaling-config minSize=0,desiredSize=0"
