"""Network interfaces that a stack still needs, which count against the account's quota. Pure."""

from dataclasses import dataclass
from typing import Final

from infra.facts.model import Facts
from infra.plan.aws_services import endpoint_names
from infra.plan.efa_interfaces import efa_layout
from infra.plan.new_nodes import new_nodes
from infra.plan.placement import control_plane_zones, has_efa, nat_zones, subnets_by_zone, vpc_zones
from infra.settings.pools import Pool
from infra.settings.stack import Settings
from infra.settings.targets import SystemPool

OF_CONTROL_PLANE: Final = 4
"""Maximum number of interfaces that EKS creates for a control plane:
https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html"""


@dataclass(frozen=True)
class Growth:
    """Network interfaces that a stack does not have yet."""

    now: int
    """Number of interfaces when each pool has the size that `pulumi up` sets."""
    maximum: int
    """Number of interfaces when each pool has its maximum size."""
    possible: int = 0
    """Further interfaces that an existing stack may already have or may still need."""


def growth(settings: Settings, facts: Facts, own_gateways: int) -> Growth:
    """Return the interfaces that the stack still needs. `own_gateways`: number of NAT gateways that the stack already
    has."""
    existing, is_new = facts.existing, not facts.existing.pools
    gateways = 0 if settings.network.is_existing else max(0, len(nat_zones(settings, facts)) - own_gateways)
    control_plane = 0
    if settings.is_eks and existing.cluster_version is None:
        control_plane = min(OF_CONTROL_PLANE, _subnets_of_control_plane(settings, facts))
    lustre = settings.storage.lustre
    file_server = lustre is not None and not lustre.is_existing and existing.lustre is None
    services = _of_services(settings, facts)
    fixed = gateways + control_plane + file_server + (services if is_new else 0)
    nodes = [(one, _each(one.pool, facts)) for one in new_nodes(settings, facts)]
    now, maximum = sum(one.now * each for one, each in nodes), sum(one.maximum * each for one, each in nodes)
    head = 1 if not settings.is_eks and is_new else 0
    return Growth(fixed + head + now, fixed + head + maximum, 0 if is_new else services)


def _each(pool: Pool | SystemPool, facts: Facts) -> int:
    """Return the number of interfaces of a node: one or, with EFA, the number in the EFA layout of the instance
    type."""
    if not isinstance(pool, Pool):
        return 1
    instance = facts.instance_types.get(pool.instance_type)
    return len(efa_layout(instance)) if instance and has_efa(pool, instance) else 1


def _of_services(settings: Settings, facts: Facts) -> int:
    """Count the interfaces of VPC endpoints and mount targets. The facts do not show whether an existing stack already
    has these interfaces."""
    network, efs = settings.network, settings.storage.efs
    zones = vpc_zones(settings, facts)
    count = 0
    if not network.is_existing and network.has_interface_endpoints:
        count += len(endpoint_names(settings, facts)) * len(zones)
    return count + (len(zones) if efs != "none" and not efs.is_existing else 0)


def _subnets_of_control_plane(settings: Settings, facts: Facts) -> int:
    zones = control_plane_zones(settings, facts)
    if not settings.network.is_existing:
        return len(zones)
    return sum(len(subnets) for zone, subnets in subnets_by_zone(settings, facts).items() if zone in zones)
