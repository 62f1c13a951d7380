"""Bill of a planned stack: what each part costs per hour when idle, as configured and at its maximum. Pure.

Without facts, the bill uses the defaults of the settings. An unknown quantity or price is None, never zero.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final, Literal, NamedTuple

from infra.cost.items import Item
from infra.cost.prices import HOURS_PER_MONTH, Price, Prices
from infra.facts.model import Facts
from infra.plan.aws_services import endpoint_names, wanted_endpoints
from infra.plan.eks_pools import SYSTEM_ROOT_VOLUME_GIB
from infra.plan.lustre import SMALLEST_GIB, THROUGHPUT
from infra.plan.placement import desired_size, nat_zones, pool_zone, vpc_zones
from infra.settings.pools import CapacityBlock, Pool, Spot, TargetedOdcr
from infra.settings.stack import Settings

Level = Literal["idle", "configured", "maximum"]
LEVELS: Final[tuple[Level, ...]] = ("idle", "configured", "maximum")


class Counts(NamedTuple):
    """A number for each of the three levels: all pools at `minSize`, at their configured sizes, and at `maxSize`."""

    idle: int
    configured: int
    maximum: int

    @classmethod
    def always(cls, number: int) -> "Counts":
        return cls(number, number, number)

    def times(self, factor: int) -> "Counts":
        return Counts(*(number * factor for number in self))


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

    def at(self, level: Level) -> Decimal | None:
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
    def monthly(self) -> Decimal:
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
        amounts = [(line, line.at(level)) for line in self.lines]
        known = sum((amount for _, amount in amounts if amount is not None), Decimal(0))
        return Total(known, tuple(dict.fromkeys(line.unknown or line.name for line, amount in amounts if amount is None)))

    @property
    def date(self) -> str:
        """Date of the oldest price in the sum."""
        return min((line.price.date for line in self.lines if line.price is not None), default=self.prices.date)

    @property
    def not_verified(self) -> bool:
        """Whether any price in the sum has not been checked against AWS's price list."""
        return any(line.price is not None and not line.price.verified for line in self.lines)


LUSTRE_TIERS: Final[Mapping[int, Item]] = {
    125: "lustre-125-gb-month",
    250: "lustre-250-gb-month",
    500: "lustre-500-gb-month",
    1000: "lustre-1000-gb-month",
}
"""Throughput in MB/s per TiB -> price item of the capacity."""

USAGE: Final[Mapping[str, tuple[tuple[str, str, Item], ...]]] = {
    "always": (
        ("traffic between zones, each way", "GB", "zone-traffic-gb"),
        ("traffic to the internet", "GB", "internet-egress-gb"),
        ("logs written", "GB", "logs-ingested-gb"),
        ("logs stored", "GB-month", "logs-stored-gb-month"),
        ("requests to KMS", "request", "kms-request"),
    ),
    "nat": (("traffic through NAT gateways", "GB", "nat-gateway-gb"),),
    "endpoints": (("traffic through VPC endpoints", "GB", "vpc-endpoint-gb"),),
    "efs": (
        ("files on EFS", "GB-month", "efs-gb-month"),
        ("reads from EFS", "GB", "efs-read-gb"),
        ("writes to EFS", "GB", "efs-write-gb"),
    ),
    "linked-bucket": (("objects in the bucket linked to FSx", "GB-month", "s3-gb-month"),),
    "efs-infrequent-access": (("files on EFS, infrequent access", "GB-month", "efs-infrequent-access-gb-month"),),
}
"""Part of a stack -> its usage-based costs: (name, unit, item)."""


def bill(settings: Settings, facts: Facts | None, prices: Prices) -> Bill:
    """Return the costs of the stack. Without facts, assume the configured zones and no existing resources."""
    make = _Lines(settings, facts, prices)
    return Bill(settings.region, tuple(make.all()), tuple(_usage(settings, prices)), prices)


class _Lines:
    def __init__(self, settings: Settings, facts: Facts | None, prices: Prices) -> None:
        self._settings, self._facts, self._prices = settings, facts, prices

    def all(self) -> Iterator[Line]:
        settings = self._settings
        if settings.is_eks:
            yield self._item("EKS control plane", "control plane", "eks-cluster-hour", Counts.always(1))
            if self._facts and settings.eks.kubernetes_version in self._facts.extended_support:
                name = f"extended support of Kubernetes {settings.eks.kubernetes_version}"
                yield self._item(name, "control plane", "eks-extended-support-hour", Counts.always(1))
        yield from self._network()
        yield from self._lustre()
        yield self._item("KMS keys", "keys", "kms-key-month", Counts.always(self._keys()), per_month=True)
        yield from self._system() if settings.is_eks else self._head_node()
        for pool in settings.pools:
            yield from self._pool(pool)

    # --- network and keys ---------------------------------------------------------------------------------------------

    def _network(self) -> Iterator[Line]:
        nat, addresses = self._nat_gateways(), self._addresses()
        if nat != Counts.always(0):
            yield self._item("NAT gateways", "network", "nat-gateway-hour", nat, unknown="the number of zones")
        if addresses != Counts.always(0):
            yield self._item("public IPv4 addresses", "network", "public-ipv4-hour", addresses, unknown="the number of zones")
        if self._settings.network.has_interface_endpoints and not self._settings.network.is_existing:
            yield self._item(
                "VPC endpoints in zones", "network", "vpc-endpoint-hour", self._endpoints(), unknown="the number of zones"
            )

    def _nat_gateways(self) -> Counts | None:
        network = self._settings.network
        if network.is_existing or network.nat == "none":
            return Counts.always(0)
        if self._facts:
            return Counts.always(len(nat_zones(self._settings, self._facts)))
        if network.nat == "one":
            return Counts.always(1)
        return None if network.zone_count is None else Counts.always(network.zone_count)

    def _addresses(self) -> Counts | None:
        nat = self._nat_gateways()
        of_head = 0 if self._settings.is_eks or not self._settings.ec2.ssh.cidrs else 1
        return None if nat is None else Counts(*(number + of_head for number in nat))

    def _endpoints(self) -> Counts | None:
        if self._facts:
            return Counts.always(len(endpoint_names(self._settings, self._facts)) * len(vpc_zones(self._settings, self._facts)))
        zones = self._settings.network.zone_count
        return None if zones is None else Counts.always(len(wanted_endpoints(self._settings)) * zones)

    def _keys(self) -> int:
        """Count the KMS keys that the stack creates: for logs, for secrets on EKS, and for new file systems. AWS owns
        the keys of SCRATCH_2 file systems."""
        efs, lustre = self._settings.storage.efs, self._settings.storage.lustre
        own_lustre = lustre is not None and not lustre.is_existing and lustre.is_persistent and lustre.kms_key_arn is None
        return 1 + self._settings.is_eks + (efs != "none" and not efs.is_existing) + own_lustre

    # --- storage ------------------------------------------------------------------------------------------------------

    def _lustre(self) -> Iterator[Line]:
        """Bill the capacity of a new file system: it costs the same whether or not it holds files."""
        lustre = self._settings.storage.lustre
        if lustre is None or lustre.is_existing:
            return
        gib = lustre.size_gib or SMALLEST_GIB
        tier = lustre.throughput_per_tib or THROUGHPUT
        item = LUSTRE_TIERS[tier] if lustre.is_persistent else "lustre-scratch-gb-month"
        kind = f"{tier} MB/s per TiB" if lustre.is_persistent else "scratch"
        price = self._prices.item(item)
        usd = price.usd * gib / HOURS_PER_MONTH if price else None
        unknown = f"the price of FSx for Lustre ({kind}) in {self._settings.region}"
        yield Line(f"FSx for Lustre, {gib} GiB, {kind}", "storage", Counts.always(1), usd, price, unknown=unknown)

    # --- nodes --------------------------------------------------------------------------------------------------------

    def _system(self) -> Iterator[Line]:
        system = self._settings.eks.system
        configured = desired_size(system, self._settings, self._facts).size if self._facts else system.desired_size
        # System pods occupy these nodes, so an idle cluster keeps the configured number.
        counts = Counts(configured, configured, max(system.max_size, configured))
        yield self._instances(system.name, system.instance_type, counts, self._on_demand(system.instance_type))
        yield self._volumes(system.name, SYSTEM_ROOT_VOLUME_GIB, counts)

    def _head_node(self) -> Iterator[Line]:
        name, pools = self._settings.ec2.head_node_type, self._settings.pools
        counts = Counts.always(1)
        shared = bool(pools) and pools[0].instance_type == name and isinstance(pools[0].capacity, CapacityBlock)
        yield self._instances("head node", name, counts, self._on_demand(name), prepaid=shared)
        if pools:
            yield self._volumes("head node", pools[0].root_volume_gib, counts)

    def _pool(self, pool: Pool) -> Iterator[Line]:
        configured = desired_size(pool, self._settings, self._facts).size if self._facts else pool.initial_size
        counts = Counts(pool.min_size, configured, pool.max_size)
        block = isinstance(pool.capacity, CapacityBlock)
        spot = isinstance(pool.capacity, Spot)
        price = self._spot(pool) if spot else self._on_demand(pool.instance_type)
        yield self._instances(pool.name, pool.instance_type, counts, price, prepaid=block, spot=spot)
        yield self._volumes(pool.name, pool.root_volume_gib, counts)
        if isinstance(pool.capacity, TargetedOdcr):
            yield from self._unused(pool, pool.capacity, counts)

    def _unused(self, pool: Pool, capacity: TargetedOdcr, counts: Counts) -> Iterator[Line]:
        """Bill unused instances of a reservation at the on-demand price."""
        held = self._facts.reservations.get(capacity.reservation_id or "") if self._facts else None
        price = self._on_demand(pool.instance_type)
        if held is None:
            name = capacity.reservation_id or capacity.resource_group_arn or ""
            yield Line(f"unused instances of {name}", pool.name, None, None, unknown=f"the size of {name}")
            return
        existing = self._facts.existing.pools.get(pool.name) if self._facts else None
        others = max(0, held.total - held.available - (existing.desired_size if existing else 0))
        # A head node with the workers' instance type runs in the workers' reservation.
        head = not self._settings.is_eks and self._settings.target.head_type == pool.instance_type
        unused = Counts(*(max(0, held.total - others - number - head) for number in counts))
        if unused != Counts.always(0):
            yield self._instances(pool.name, f"unused {pool.instance_type} in {held.id}", unused, price)

    # --- lines --------------------------------------------------------------------------------------------------------

    def _on_demand(self, instance_type: str) -> Price | None:
        return self._prices.on_demand(instance_type)

    def _spot(self, pool: Pool) -> Price | None:
        zone = pool_zone(pool, self._settings, self._facts) if self._facts else pool.zone
        return self._prices.spot_price(pool.instance_type, zone)

    def _instances(
        self, pool: str, name: str, counts: Counts, price: Price | None, *, prepaid: bool = False, spot: bool = False
    ) -> Line:
        market = "spot " if spot else ""
        unknown = f"the {market}price of {name} in {self._settings.region}"
        return Line(f"{name}{', spot' if spot else ''}", pool, counts, price.usd if price else None, price, prepaid, unknown)

    def _volumes(self, pool: str, gib: int, counts: Counts) -> Line:
        price = self._prices.item("gp3-gb-month")
        usd = price.usd * gib / HOURS_PER_MONTH if price else None
        unknown = f"the price of gp3 volumes in {self._settings.region}"
        return Line(f"root volume, {gib} GiB", pool, counts, usd, price, unknown=unknown)

    def _item(
        self, name: str, group: str, item: Item, counts: Counts | None, *, per_month: bool = False, unknown: str = ""
    ) -> Line:
        price = self._prices.item(item)
        usd = price.usd / (HOURS_PER_MONTH if per_month else 1) if price else None
        lacking = unknown if counts is None else f"the price of {name} in {self._settings.region}"
        return Line(name, group, counts, usd, price, unknown=lacking)


def _usage(settings: Settings, prices: Prices) -> Iterator[UsageLine]:
    efs, network, lustre = settings.storage.efs, settings.network, settings.storage.lustre
    parts = {
        "always": True,
        "nat": not network.is_existing and network.nat != "none",
        "endpoints": network.has_interface_endpoints and not network.is_existing,
        "efs": efs != "none",
        "linked-bucket": lustre is not None and lustre.data_repository is not None,
        "efs-infrequent-access": efs != "none" and efs.infrequent_access_after_days is not None,
    }
    for part, present in parts.items():
        for name, unit, item in USAGE[part] if present else ():
            yield UsageLine(name, unit, prices.item(item))
