"""Placement groups. https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-groups.html"""

from dataclasses import dataclass, field
from typing import Any

from moto.ec2.utils import random_id

from localcloud.aws.errors import AwsError
from localcloud.aws.patching import get_state

MAXIMUM_SPREAD = 7  # instances per zone: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/placement-strategies.html


@dataclass
class PlacementGroup:
    """Placement group, which places instances close together or apart."""

    id: str
    name: str
    arn: str
    strategy: str
    partitions: int | None = None
    spread_level: str | None = None
    state: str = "available"
    members: dict[str, str] = field(default_factory=dict)
    """Maps an instance ID to its zone, for instances that are not terminated."""

    def check_zone(self, zone: str, count: int) -> None:
        """Raise AWS's error if the group cannot place the instances in the zone.

        A cluster placement group can use only one zone, and a spread placement group can have only a few instances per
        zone.
        """
        if self.strategy == "cluster":
            other = next((taken for taken in self.members.values() if taken != zone), None)
            if other is not None:
                raise AwsError(
                    "InvalidPlacementGroup.InUse",
                    f"The placement group '{self.name}' is in use in another availability zone: {other}",
                )
        elif self.strategy == "spread" and list(self.members.values()).count(zone) + count > MAXIMUM_SPREAD:
            raise AwsError(
                "InsufficientInstanceCapacity",
                f"The placement group '{self.name}' can hold no more than {MAXIMUM_SPREAD} instances in {zone}.",
                500,
            )


class PlacementGroups:
    """Placement groups of one account and region, keyed by name."""

    def __init__(self) -> None:
        self.by_name: dict[str, PlacementGroup] = {}


def list_groups(backend: Any) -> list[PlacementGroup]:
    return list(get_state(backend, PlacementGroups).by_name.values())


def find_group(backend: Any, name: str | None = None, group_id: str | None = None) -> PlacementGroup:
    """Find the group by name or id. If there is no such group, raise the error that a launch would get."""
    for group in list_groups(backend):
        if group.name == name or group.id == group_id:
            return group
    raise AwsError("InvalidPlacementGroup.Unknown", f"The Placement Group '{name or group_id}' is unknown.")


def seed_group(backend: Any, name: str, strategy: str = "cluster") -> str:
    """Add a placement group to the account, as if it had been created earlier, and return its name."""
    arn = f"arn:aws:ec2:{backend.region_name}:{backend.account_id}:placement-group/{name}"
    get_state(backend, PlacementGroups).by_name[name] = PlacementGroup(random_id("pg"), name, arn, strategy)
    return name


def find_by_arn(backend: Any, arn: str) -> PlacementGroup:
    return find_group(backend, name=arn.rpartition("placement-group/")[2] or arn)
