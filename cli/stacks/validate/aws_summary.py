"""Summary of an AWS stack, printed before the stack is created."""

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console

from cli.console import Listing
from infra.facts.instance_types import InstanceType
from infra.facts.model import Facts
from infra.plan.efa_interfaces import plan_efa_interfaces
from infra.plan.placement import choose_pool_zone, has_efa, list_offering_zones, list_vpc_zones, needs_placement_group, plan_sizes
from infra.settings.pools import Pool
from infra.settings.stack import Settings
from infra.settings.targets import SystemPool

UNKNOWN = "?"


@dataclass(frozen=True)
class Row:
    """Row of a pool in the summary. Fields are None if they are unknown because AWS was not queried."""

    name: str
    instance_type: str
    gpus: int | None
    efa: int | None
    zones: tuple[str, ...] | None
    min_size: int
    desired_size: int
    max_size: int
    capacity: str
    placement_group: str | None


def list_rows(settings: Settings, facts: Facts | None) -> Iterator[Row]:
    yield _build_system_row(settings, facts) if settings.is_eks else _build_head_node_row(settings, facts)
    for pool in settings.pools:
        instance_type = facts.instance_types[pool.instance_type] if facts else None
        zone = choose_pool_zone(pool, settings, facts) if facts else pool.zone
        devices = (instance_type.gpus, _count_efa_interfaces(pool, instance_type)) if instance_type else (None, None)
        zones, group = (zone,) if zone else None, _describe_placement_group(pool, facts)
        yield _build_row(pool, settings, facts, zones, devices, pool.capacity.kind, group)


def _build_system_row(settings: Settings, facts: Facts | None) -> Row:
    system = settings.eks.system
    zones = list_offering_zones(system.instance_type, settings, facts) if facts else None
    return _build_row(system, settings, facts, zones, (0, 0), "on-demand", "none")


def _build_head_node_row(settings: Settings, facts: Facts | None) -> Row:
    """Return the row of the head node, which is in the workers' zone.

    If the head node has the workers' instance type, it also runs ranks.
    """
    name, pool = settings.ec2.head_node_type, settings.pools[0] if settings.pools else None
    computes = pool if pool and pool.instance_type == name else None
    head = facts.instance_types[name] if facts else None
    zone = choose_pool_zone(pool, settings, facts) if facts and pool else None
    gpus, efa = (head.gpus, _count_efa_interfaces(computes, head) if computes else 0) if head else (None, None)
    group = _describe_placement_group(computes, facts) if computes else "none"
    return Row("master", name, gpus, efa, (zone,) if zone else None, 1, 1, 1, "on-demand", group)


def _build_row(
    pool: Pool | SystemPool,
    settings: Settings,
    facts: Facts | None,
    zones: tuple[str, ...] | None,
    devices: tuple[int | None, int | None],
    capacity: str,
    group: str | None,
) -> Row:
    desired = plan_sizes(pool, settings, facts).desired if facts else pool.initial_size
    return Row(pool.name, pool.instance_type, *devices, zones, pool.min_size, desired, pool.max_size, capacity, group)


def _count_efa_interfaces(pool: Pool, instance_type: InstanceType) -> int:
    return len(plan_efa_interfaces(instance_type)) - 1 if has_efa(pool, instance_type) else 0


def _describe_placement_group(pool: Pool, facts: Facts | None) -> str | None:
    if pool.placement_group != "auto":
        return pool.placement_group
    if facts is None:
        return None
    return "new" if needs_placement_group(pool, facts) else "none"


def print_summary(console: Console, settings: Settings, facts: Facts | None) -> None:
    network = settings.network
    zones = ", ".join(list_vpc_zones(settings, facts)) if facts else UNKNOWN
    console.print(f"{settings.cluster_name}: {_describe_cluster_kind(settings, facts)} in {settings.region}")
    if facts:
        console.print(f"  account {facts.caller.account}, as {facts.caller.principal_arn or facts.caller.arn}")
    vpc = network.vpc_id or f"new, {network.new_cidr}, NAT gateways: {network.nat}"
    console.print(f"  network {vpc}; zones {zones}")
    for file_system in settings.storage.file_systems:
        console.print(f"  {file_system.kind.title} {file_system.summary}, at {file_system.mount_path}")
    summary = list(list_rows(settings, facts))
    console.print(_build_table(summary))
    if settings.pools and facts:
        console.print(f"at most {sum((row.gpus or 0) * row.max_size for row in summary)} GPUs")


def _describe_cluster_kind(settings: Settings, facts: Facts | None) -> str:
    if not settings.is_eks:
        ami = facts.ami.id if facts and facts.ami else UNKNOWN
        return f"EC2 cluster, AMI {ami},"
    version, now = settings.eks.kubernetes_version, facts.existing.cluster_version if facts else None
    return f"Kubernetes {version}{f' (now {now})' if now and now != version else ''}"


def _build_table(summary: list[Row]) -> Listing:
    listing = Listing("pool", "type", "GPUs", "EFA", "nodes", "zone", "capacity", "placement", right=("GPUs", "EFA"))
    for row in summary:
        numbers = [UNKNOWN if number is None else str(number) for number in (row.gpus, row.efa)]
        nodes = f"{row.desired_size} ({row.min_size} to {row.max_size})"
        zones = UNKNOWN if not row.zones else row.zones[0] if len(row.zones) == 1 else f"{len(row.zones)} zones"
        group = row.placement_group or UNKNOWN
        listing.add_row(row.name, row.instance_type, *numbers, nodes, zones, row.capacity, group)
    return listing
