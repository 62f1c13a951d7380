"""Spending so far: instance-seconds times prices, per pool, cost center, namespace and job. Performs no I/O."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from cli.stacks.cost.uses import Use, Uses, compute_node_hours
from infra.cost.prices import Prices
from infra.facts.spending import Run

HOUR = Decimal(3600)


@dataclass
class Spent:
    """Spending of a pool, a cost center, a namespace or a job."""

    usd: Decimal = Decimal(0)
    instance_hours: Decimal = Decimal(0)
    gpu_hours: Decimal = Decimal(0)
    unknown: bool = False
    """Whether `usd` is incomplete, because the price of some of the hours is unknown."""

    def as_json(self) -> dict[str, object]:
        return {
            "usd": None if self.unknown else float(round(self.usd, 4)),
            "instanceHours": float(round(self.instance_hours, 4)),
            "gpuHours": float(round(self.gpu_hours, 4)),
        }


@dataclass
class Spending:
    """Spending of a stack in a period."""

    since: datetime
    until: datetime
    total: Spent = field(default_factory=Spent)
    pools: dict[str, Spent] = field(default_factory=lambda: defaultdict(Spent))
    cost_centers: dict[str, Spent] = field(default_factory=lambda: defaultdict(Spent))
    namespaces: dict[str, Spent] = field(default_factory=lambda: defaultdict(Spent))
    jobs: dict[tuple[str, str], Spent] = field(default_factory=lambda: defaultdict(Spent))
    idle_gpu_hours: dict[str, Decimal] = field(default_factory=dict)
    """Maps a pool to the GPU hours that no job used; empty if jobs could not be read."""
    unknown: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, object]:
        return {
            "since": self.since.isoformat(),
            "until": self.until.isoformat(),
            "currency": "USD",
            "total": self.total.as_json(),
            "pools": {name: spent.as_json() for name, spent in self.pools.items()},
            "costCenters": {name: spent.as_json() for name, spent in self.cost_centers.items()},
            "namespaces": {name: spent.as_json() for name, spent in self.namespaces.items()},
            "jobs": [{"namespace": space, "job": name, **spent.as_json()} for (space, name), spent in self.jobs.items()],
            "idleGpuHours": {name: float(round(hours, 4)) for name, hours in self.idle_gpu_hours.items()},
            "unknown": self.unknown,
        }


def get_hourly_price(run: Run | Use, prices: Prices) -> Decimal | None:
    """Return the price in USD per hour; None if it is unknown. In a Capacity Block, the price is 0, because the block
    was paid for when it was bought.
    """
    if run.market == "capacity-block":
        return Decimal(0)
    price = prices.spot_price(run.instance_type, run.zone) if run.market == "spot" else prices.on_demand(run.instance_type)
    return None if price is None else price.usd


def compute_spending(
    runs: Iterable[Run],
    uses: Uses | None,
    prices: Prices,
    gpus: Mapping[str, int],
    *,
    since: datetime,
    now: datetime,
) -> Spending:
    """Compute the spending in a period. `gpus` maps instance types to GPUs per instance; `uses` is None if jobs could
    not be read.
    """
    totals = Spending(since, now)
    for run in runs:
        hours = Decimal(str(run.seconds(since, now))) / HOUR
        if hours == 0:
            continue
        price = get_hourly_price(run, prices)
        if price is None:
            totals.unknown.append(f"the {run.market} price of {run.instance_type} in {prices.region}")
        for spent in (totals.total, totals.pools[run.pool], totals.cost_centers[run.cost_center]):
            _add_cost(spent, hours, price, hours * gpus.get(run.instance_type, 0))
    if uses is not None:
        _add_job_costs(totals, uses, prices, gpus)
        totals.unknown += uses.notes
    totals.unknown = list(dict.fromkeys(totals.unknown))
    return totals


def _add_cost(spent: Spent, hours: Decimal, price: Decimal | None, gpu_hours: Decimal) -> None:
    spent.instance_hours += hours
    spent.gpu_hours += gpu_hours
    if price is None:
        spent.unknown = True
    else:
        spent.usd += hours * price


def _add_job_costs(totals: Spending, uses: Uses, prices: Prices, gpus: Mapping[str, int]) -> None:
    """Add the cost of each job and namespace, and the GPU hours that no job used."""
    used: dict[str, Decimal] = defaultdict(Decimal)
    shares = compute_node_hours(uses.workers, gpus, totals.since, totals.until)
    for use, hours in zip(uses.workers, shares, strict=True):
        if hours == 0:
            continue
        price = get_hourly_price(use, prices) if use.instance_type else None
        if price is None:
            what = f"the {use.market} price of {use.instance_type} in {prices.region}"
            totals.unknown.append(what if use.instance_type else f"the instance type of job {use.job} in {use.namespace}")
        gpu_hours = hours * gpus.get(use.instance_type, 0)
        used[use.pool] += gpu_hours
        for spent in (totals.jobs[use.key], totals.namespaces[use.namespace]):
            _add_cost(spent, hours, price, gpu_hours)
    for key in uses.incomplete & totals.jobs.keys():
        totals.jobs[key].unknown = totals.namespaces[key[0]].unknown = True
    for name, pool in totals.pools.items():
        if pool.gpu_hours:
            totals.idle_gpu_hours[name] = max(Decimal(0), pool.gpu_hours - used[name])
