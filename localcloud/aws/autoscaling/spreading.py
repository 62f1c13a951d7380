"""Selection of the zone and subnet for a new instance of a group, and of the instances to terminate. Pure functions.

https://docs.aws.amazon.com/autoscaling/ec2/userguide/auto-scaling-benefits.html (balance across zones)
https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-termination-policies.html
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

TERMINATION_POLICIES = (
    "AllocationStrategy",
    "ClosestToNextInstanceHour",
    "Default",
    "NewestInstance",
    "OldestInstance",
    "OldestLaunchConfiguration",
    "OldestLaunchTemplate",
)


@dataclass(frozen=True)
class Place:
    """Place to launch an instance: a subnet of the group, or a zone if the group has no subnets."""

    zone: str
    subnet_id: str | None


@dataclass(frozen=True)
class Member:
    """Properties of an instance that determine whether it is chosen for termination."""

    id: str
    zone: str
    launched: datetime
    template_version: int
    protected: bool = False


def order_places(places: Sequence[Place], zones_in_use: Sequence[str], subnets_in_use: Sequence[str | None]) -> list[Place]:
    """Return the places in the order to try: by fewest instances in the zone, then in the subnet, then as listed."""
    in_zone, in_subnet = Counter(zones_in_use), Counter(subnets_in_use)
    return sorted(places, key=lambda place: (in_zone[place.zone], in_subnet[place.subnet_id]))


def choose_instances_to_terminate(members: Sequence[Member], count: int, policies: Sequence[str]) -> list[str]:
    """Return the ids of the instances to terminate.

    The termination policies choose each instance from the zone with the most instances. Protected instances are
    skipped.
    """
    left = list(members)
    chosen: list[str] = []
    while len(chosen) < count:
        free = [member for member in left if not member.protected]
        if not free:
            break
        full = Counter(member.zone for member in left)
        most = max(full[member.zone] for member in free)
        candidates = [member for member in free if full[member.zone] == most]
        member = min(candidates, key=_make_sort_key(policies))
        left.remove(member)
        chosen.append(member.id)
    return chosen


def _make_sort_key(policies: Sequence[str]) -> Callable[[Member], tuple[float | str, ...]]:
    def sort_key(member: Member) -> tuple[float | str, ...]:
        age = -member.launched.timestamp()
        keys: list[float | str] = []
        for policy in policies or ("Default",):
            match policy:
                case "NewestInstance":
                    keys.append(age)
                case "OldestInstance" | "ClosestToNextInstanceHour":
                    keys.append(-age)
                case "OldestLaunchTemplate" | "OldestLaunchConfiguration":
                    keys.append(member.template_version)
                case _:
                    keys += [member.template_version, -age]
        return (*keys, member.id)

    return sort_key
