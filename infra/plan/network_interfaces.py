"""Network interfaces of a new stack, which count against the account's quota. Pure."""

from typing import Final

from infra.facts.model import Facts
from infra.plan.aws_services import endpoint_names
from infra.plan.efa_interfaces import efa_layout
from infra.plan.placement import control_plane_zones, has_efa, nat_zones, subnets_by_zone, vpc_zones
from infra.settings.pools import Pool
from infra.settings.stack import Settings

OF_CONTROL_PLANE: Final = 4
"""Most interfaces that EKS creates for a control plane: https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html"""


def at_creation(settings: Settings, facts: Facts) -> int:
    """Return the number with each pool at its first size."""
    system = settings.eks.system.desired_size if settings.is_eks else 1
    return _of_services(settings, facts) + system + sum(pool.initial_size * _each(pool, facts) for pool in settings.pools)


def at_maximum(settings: Settings, facts: Facts) -> int:
    """Return the number with each pool at its maximum size."""
    system = settings.eks.system.max_size if settings.is_eks else 1
    return _of_services(settings, facts) + system + sum(pool.max_size * _each(pool, facts) for pool in settings.pools)


def _each(pool: Pool, facts: Facts) -> int:
    """Return the interfaces of a node: one, or the EFA layout of the type."""
    instance = facts.instance_types.get(pool.instance_type)
    return len(efa_layout(instance)) if instance and has_efa(pool, instance) else 1


def _of_services(settings: Settings, facts: Facts) -> int:
    """Count those of NAT gateways, VPC endpoints, the control plane, mount targets, and a file server of FSx."""
    network, efs, lustre = settings.network, settings.storage.efs, settings.storage.lustre
    zones = vpc_zones(settings, facts)
    count = 0
    if not network.is_existing:
        count += len(nat_zones(settings, facts))
        count += len(endpoint_names(settings, facts)) * len(zones) if network.has_interface_endpoints else 0
    if settings.is_eks:
        count += min(OF_CONTROL_PLANE, _subnets_of_control_plane(settings, facts))
    if efs != "none" and not efs.is_existing:
        count += len(zones)
    return count + (lustre is not None and not lustre.is_existing)


def _subnets_of_control_plane(settings: Settings, facts: Facts) -> int:
    zones = control_plane_zones(settings, facts)
    if not settings.network.is_existing:
        return len(zones)
    return sum(len(subnets) for zone, subnets in subnets_by_zone(settings, facts).items() if zone in zones)
