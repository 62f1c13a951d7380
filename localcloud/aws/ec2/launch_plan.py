"""Resolved and validated launch request."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from localcloud.aws.ec2.capacity_reservations import CapacityReservation
from localcloud.aws.ec2.instance_types import TypeFacts
from localcloud.aws.ec2.launch_interfaces import InterfacePlan
from localcloud.aws.ec2.launch_volumes import VolumePlan
from localcloud.aws.ec2.placement_groups import PlacementGroup


@dataclass(frozen=True)
class Plan:
    """Launch request that passed all of AWS's checks."""

    data: Mapping[str, Any]
    count: int
    facts: TypeFacts
    image: Any
    zone: str
    interfaces: Sequence[InterfacePlan]
    volumes: Sequence[VolumePlan]
    profile: Any
    placement_group: PlacementGroup | None
    market: str
    reservation: CapacityReservation | None
    tags: Mapping[str, dict[str, str]]
