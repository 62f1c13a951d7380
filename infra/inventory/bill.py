"""Bill of a planned stack: the hourly cost of each part when idle, as configured and at its maximum.

Without facts, the bill assumes an account without resources. An unknown quantity or price is None, never zero.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Final, Literal

from infra.cost.items import Item
from infra.cost.prices import HOURS_PER_MONTH, Price, Prices
from infra.facts.model import Facts
from infra.inventory.compute import CLUSTER
from infra.inventory.entry import ALWAYS_ONE, Charge, Counts, UsageItem
from infra.inventory.nodes import HEAD_NODE, Nodes, read_launched_nodes
from infra.inventory.offline import generate_possible_facts
from infra.inventory.resources import Inventory, list_resources
from infra.inventory.table import TABLE
from infra.naming import SYSTEM_POOL
from infra.plan.placement import choose_pool_zone
from infra.settings.pools import Pool, TargetedOdcr
from infra.settings.stack import Settings

Level = Literal["idle", "configured", "maximum"]
LEVELS: Final[tuple[Level, ...]] = ("idle", "configured", "maximum")
HEAD: Final = "head node"
GROUPS: Final = ("control plane", "network", "storage", "keys", SYSTEM_POOL, HEAD)
"""Groups in the order of the bill; job pools follow."""


@dataclass(frozen=True)
class Line:
    """One line of the bill."""

    name: str
    group: str
    """Group of the line: `control plane`, `network`, `storage`, `keys`, or a pool."""
    counts: Counts | None
    """None if the number is unknown."""
    usd: Decimal | None
    """Hourly price of one unit; None if it is unknown."""
    price: Price | None = None
    """Price from which `usd` was calculated."""
    prepaid: bool = False
    """Whether the instances were paid for when their Capacity Block was bought."""
    unknown: str = ""
    """Description of the unknown number or price, such as `the price of p5e.48xlarge in us-west-2`."""

    def hourly_cost(self, level: Level) -> Decimal | None:
        """Return USD per hour; None if it is unknown."""
        if self.prepaid:
            return Decimal(0)
        if self.counts is not None and getattr(self.counts, level) == 0:
            return Decimal(0)
        if self.counts is None or self.usd is None:
            return None
        number: int = getattr(self.counts, level)
        return self.usd * number


@dataclass(frozen=True)
class UsageLine:
    """A line whose cost depends on usage, such as traffic. The sum excludes this cost."""

    name: str
    unit: str
    price: Price | None


@dataclass(frozen=True)
class Total:
    """Sum of the known amounts, and descriptions of the unknown amounts."""

    hourly: Decimal
    unknown: tuple[str, ...] = ()

    @property
    def monthly_cost(self) -> Decimal:
        return self.hourly * HOURS_PER_MONTH

    @property
    def is_known(self) -> bool:
        return not self.unknown


@dataclass(frozen=True)
class Bill:
    """Costs of a stack."""

    region: str
    lines: tuple[Line, ...]
    usage: tuple[UsageLine, ...]
    prices: Prices = field(repr=False)

    def total(self, level: Level) -> Total:
        amounts = [(line, line.hourly_cost(level)) for line in self.lines]
        subtotal = sum((amount for _, amount in amounts if amount is not None), Decimal(0))
        return Total(subtotal, tuple(dict.fromkeys(line.unknown or line.name for line, amount in amounts if amount is None)))

    @property
    def date(self) -> str:
        """Date of the oldest price in the sum."""
        return min((line.price.date for line in self.lines if line.price is not None), default=self.prices.date)

    @property
    def has_unverified_prices(self) -> bool:
        """Whether any price in the sum has not been checked against AWS's price list."""
        return any(line.price is not None and not line.price.verified for line in self.lines)


ALWAYS: Final = (
    UsageItem("traffic between zones, each way", "GB", "zone-traffic-gb"),
    UsageItem("traffic to the internet", "GB", "internet-egress-gb"),
    UsageItem("logs written", "GB", "logs-ingested-gb"),
    UsageItem("logs stored", "GB-month", "logs-stored-gb-month"),
    UsageItem("requests to KMS", "request", "kms-request"),
)
"""Usage of every stack."""


def compute_bill(settings: Settings, facts: Facts | None, prices: Prices) -> Bill:
    """Return the costs of the stack. Raises LookupError if the stack cannot be planned."""
    if facts is not None:
        writer = _Writer(settings, facts, list_resources(settings, facts), prices)
        return Bill(settings.region, tuple(writer.list_lines()), tuple(writer.usage()), prices)
    writers = [
        _Writer(settings, None, list_resources(settings, possible), prices) for possible in generate_possible_facts(settings)
    ]
    lines = _merge_bills([list(writer.list_lines()) for writer in writers])
    return Bill(settings.region, tuple(lines), tuple(writers[0].usage()), prices)


def _merge_bills(bills: Sequence[Sequence[Line]]) -> Iterator[Line]:
    """Yield the lines of the first bill, which other bills may correct. If the bills for accounts with other zones
    have a different number, the number is unknown."""
    for versions in zip(*bills, strict=True):
        is_known = all(line.counts == versions[0].counts for line in versions)
        yield versions[0] if is_known else replace(versions[0], counts=None, unknown="the number of zones")


class _Writer:
    """Writes the bill of one inventory."""

    def __init__(self, settings: Settings, facts: Facts | None, inventory: Inventory, prices: Prices) -> None:
        self._settings, self._facts, self._inventory, self._prices = settings, facts, inventory, prices
        self._pools = {pool.name: pool for pool in settings.pools}

    def list_lines(self) -> list[Line]:
        """Return the lines in the order of the bill."""
        groups = (*GROUPS, *self._pools)
        return sorted((*self._list_charge_lines(), *self._list_node_lines()), key=lambda line: groups.index(line.group))

    def usage(self) -> Iterator[UsageLine]:
        items = [
            item
            for token, entry in TABLE.items()
            for resource in self._inventory.list_by_type(token)
            for item in entry.usage(resource)
        ]
        for item in dict.fromkeys((*ALWAYS, *items)):
            yield UsageLine(item.name, item.unit, self._prices.item_price(item.item))

    def _list_charge_lines(self) -> Iterator[Line]:
        charges: dict[Charge, Counts] = {}
        for token, entry in TABLE.items():
            for resource in self._inventory.list_by_type(token):
                for charge in entry.charges(resource):
                    unit = replace(charge, counts=ALWAYS_ONE)
                    charges[unit] = charges.get(unit, Counts.from_constant(0)).add(charge.counts)
        for charge, counts in charges.items():
            yield self._build_charge_line(charge, counts)
        for cluster in self._inventory.list_by_type(CLUSTER):
            version = cluster.inputs["version"]
            if self._facts and version in self._facts.extended_support:
                name = f"extended support of Kubernetes {version}"
                yield self._build_charge_line(Charge(name, "control plane", "eks-extended-support-hour"), ALWAYS_ONE)

    def _build_charge_line(self, charge: Charge, counts: Counts) -> Line:
        price = self._prices.item_price(charge.item)
        usd = _to_hourly_price(charge.item, price.usd * charge.factor) if price else None
        unknown = f"the price of {charge.price_name or charge.name} in {self._settings.region}"
        return Line(charge.name, charge.group, counts, usd, price, unknown=unknown)

    # --- nodes --------------------------------------------------------------------------------------------------------

    def _list_node_lines(self) -> Iterator[Line]:
        for resource in self._inventory.resources:
            if TABLE[resource.type].launches_nodes:
                yield from self._list_pool_lines(read_launched_nodes(resource, self._inventory))

    def _list_pool_lines(self, nodes: Nodes) -> Iterator[Line]:
        group, counts, pool = nodes.pool or HEAD, Counts.from_nodes(nodes), self._pools.get(nodes.pool)
        price = self._find_spot_price(pool) if nodes.market == "spot" and pool else self._prices.on_demand(nodes.instance_type)
        yield self._build_instance_line(group, nodes, counts, price)
        gib = Charge(f"root volume, {nodes.volume_gib} GiB", group, "gp3-gb-month", price_name="gp3 volumes")
        yield self._build_charge_line(replace(gib, factor=Decimal(nodes.volume_gib)), counts)
        if pool and isinstance(pool.capacity, TargetedOdcr):
            yield from self._list_unused_reservation_lines(pool, pool.capacity, counts)

    def _build_instance_line(self, group: str, nodes: Nodes, counts: Counts, price: Price | None) -> Line:
        name, spot = nodes.instance_type, nodes.market == "spot"
        unknown = f"the {'spot ' if spot else ''}price of {name} in {self._settings.region}"
        usd, prepaid = price.usd if price else None, nodes.market == "capacity-block"
        return Line(f"{name}{', spot' if spot else ''}", group, counts, usd, price, prepaid, unknown)

    def _find_spot_price(self, pool: Pool) -> Price | None:
        zone = choose_pool_zone(pool, self._settings, self._facts) if self._facts else pool.zone
        return self._prices.spot_price(pool.instance_type, zone)

    def _list_unused_reservation_lines(self, pool: Pool, capacity: TargetedOdcr, counts: Counts) -> Iterator[Line]:
        """Bill unused instances of a reservation at the on-demand price."""
        reservation = self._facts.reservations.get(capacity.reservation_id or "") if self._facts else None
        price = self._prices.on_demand(pool.instance_type)
        if reservation is None:
            name = capacity.reservation_id or capacity.resource_group_arn or ""
            yield Line(f"unused instances of {name}", pool.name, None, None, unknown=f"the size of {name}")
            return
        existing = self._facts.existing.pools.get(pool.name) if self._facts else None
        elsewhere = max(0, reservation.total - reservation.available - (existing.desired_size if existing else 0))
        # A head node with the workers' instance type runs in the workers' reservation.
        heads = [read_launched_nodes(head, self._inventory) for head in self._inventory.list_by_type(HEAD_NODE)]
        in_reservation = sum(head.instance_type == pool.instance_type for head in heads)
        unused = Counts(*(max(0, reservation.total - elsewhere - number - in_reservation) for number in counts))
        if unused != Counts.from_constant(0):
            usd, unknown = price.usd if price else None, f"the price of {pool.instance_type} in {self._settings.region}"
            yield Line(f"unused {pool.instance_type} in {reservation.id}", pool.name, unused, usd, price, unknown=unknown)


def _to_hourly_price(item: Item, usd: Decimal) -> Decimal:
    return usd / HOURS_PER_MONTH if item.endswith("-month") else usd
