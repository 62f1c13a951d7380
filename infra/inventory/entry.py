"""One row of the table of resource types, and the return types of the row's functions."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final, NamedTuple

from infra.cost.items import Item
from infra.facts.account_limits import Limit
from infra.facts.model import Facts
from infra.inventory.lookups import Look
from infra.inventory.nodes import Nodes
from infra.inventory.resources import Inventory, Resource


class Counts(NamedTuple):
    """A number for each of the three levels: all pools at `minSize`, at their configured sizes, and at `maxSize`."""

    idle: int
    configured: int
    maximum: int

    @classmethod
    def from_constant(cls, number: int) -> "Counts":
        return cls(number, number, number)

    @classmethod
    def from_nodes(cls, nodes: Nodes) -> "Counts":
        """System pods occupy the system nodes, so an idle cluster keeps the configured number of system nodes."""
        idle = nodes.desired if nodes.is_system else nodes.minimum
        return cls(idle, nodes.desired, max(nodes.maximum, nodes.desired) if nodes.is_system else nodes.maximum)

    def add(self, counts: "Counts") -> "Counts":
        return Counts(*(own + added for own, added in zip(self, counts, strict=True)))


ALWAYS_ONE: Final = Counts.from_constant(1)


@dataclass(frozen=True)
class Charge:
    """Units of a priced item. Charges with the same name and group are one line of the bill."""

    name: str
    group: str
    """Group of the line: `control plane`, `network`, `storage`, `keys`, or a pool."""
    item: Item
    counts: Counts = ALWAYS_ONE
    factor: Decimal = Decimal(1)
    """Number of the item's units in one unit of the line, such as the GiB of a volume."""
    price_name: str = ""
    """Name of the price in messages; by default, the name of the line."""


@dataclass(frozen=True)
class UsageItem:
    """An item whose quantity depends on usage."""

    name: str
    unit: str
    item: Item


@dataclass(frozen=True)
class KeyUse:
    """Actions on a KMS key that AWS performs on behalf of the caller."""

    actions: tuple[str, ...]
    service: str | None = None
    """Service through which the request reaches KMS, such as `fsx`."""


def count_as_one(resource: Resource) -> int:
    return 1


def may_exist(resource: Resource, facts: Facts) -> bool | None:
    """Return False for a new stack. The facts do not show which other resources an existing stack has."""
    return None if facts.existing.pools or facts.existing.cluster_version else False


@dataclass(frozen=True, kw_only=True)
class Entry:
    """The cost, the quotas and the permissions of the resources of one type."""

    # Permissions, besides the actions in actions.yaml
    optional: Mapping[str, Callable[[Resource], bool]] = field(default_factory=dict)
    """Maps an action of a creation that depends on the inputs to a function that returns whether a resource needs the action."""
    passes_roles_to: str = ""
    """Service to which the caller passes a role."""
    key_use: Callable[[Resource], KeyUse | None] = lambda resource: None
    service_roles: Callable[[Resource, Inventory], tuple[str, ...]] = lambda resource, inventory: ()
    """Services whose service-linked role must exist."""
    # Costs and quotas
    charges: Callable[[Resource], Iterable[Charge]] = lambda resource: ()
    """Charges other than those of nodes."""
    usage: Callable[[Resource], Iterable[UsageItem]] = lambda resource: ()
    units: Mapping[Limit, Callable[[Resource], int]] = field(default_factory=dict)
    """Maps a quota to the units of it that a resource needs, in addition to those of nodes."""
    launches_nodes: bool = False
    """Whether `read_launched_nodes` returns the nodes of a resource, which are priced and counted."""
    exists: Callable[[Resource, Facts], bool | None] = may_exist
    """Whether AWS already has the resource; None if the facts do not show that."""
    # Recovery and changes
    lookup: Look | None = None
    """Finds what an interrupted create left behind. None if the resource only configures another one and is deleted with
    it: a second create has no further effect."""
    replaced: str = ""
    """Effect of a resource's replacement on jobs and their files."""
    deleted: str = ""
    """Effect of a resource's deletion on jobs and their files."""
    rolling: frozenset[str] = frozenset()
    """Inputs whose change replaces the nodes one by one."""
