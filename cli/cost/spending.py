"""Spending so far: instance-seconds times prices, per pool, cost center, namespace and job. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from cli.job_state import JobState
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
    """Whether the price of some of its hours is unknown."""

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
    """Pool -> GPU hours that no job used; empty if jobs could not be read."""
    unknown: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, object]:
        return {
            "since": self.since.isoformat(),
            "until": self.until.isoformat(),
            "currency": "USD",
            "total": self.total.as_json(),
            "pools": {name: one.as_json() for name, one in self.pools.items()},
            "costCenters": {name: one.as_json() for name, one in self.cost_centers.items()},
            "namespaces": {name: one.as_json() for name, one in self.namespaces.items()},
            "jobs": [{"namespace": space, "job": name, **one.as_json()} for (space, name), one in self.jobs.items()],
            "idleGpuHours": {name: float(round(hours, 4)) for name, hours in self.idle_gpu_hours.items()},
            "unknown": self.unknown,
        }


def price_of(run: Run, prices: Prices) -> Decimal | None:
    """Return USD per hour; None if it is unknown. Instances of a Capacity Block were paid for when it was bought."""
    if run.market == "capacity-block":
        return Decimal(0)
    price = prices.spot_price(run.instance_type, run.zone) if run.market == "spot" else prices.on_demand(run.instance_type)
    return None if price is None else price.usd


def spending(
    runs: Iterable[Run],
    jobs: Sequence[JobState] | None,
    prices: Prices,
    gpus: Mapping[str, int],
    *,
    since: datetime,
    now: datetime,
) -> Spending:
    """Add up the spending of a period. `gpus` maps instance types to GPUs per instance; `jobs` is None if they could
    not be read.
    """
    found = Spending(since, now)
    rates: dict[str, Decimal] = {}
    for run in runs:
        hours = Decimal(str(run.seconds(since, now))) / HOUR
        if hours == 0:
            continue
        price = price_of(run, prices)
        if price is None:
            found.unknown.append(f"the {run.market} price of {run.instance_type} in {prices.region}")
        else:
            rates[run.pool] = price
        for spent in (found.total, found.pools[run.pool], found.cost_centers[run.cost_center]):
            _add(spent, hours, price, gpus.get(run.instance_type, 0))
    found.unknown = list(dict.fromkeys(found.unknown))
    if jobs is not None:
        _add_jobs(found, jobs, rates, _gpus_per_pool(found.pools))
    return found


def _add(spent: Spent, hours: Decimal, price: Decimal | None, gpus: int) -> None:
    spent.instance_hours += hours
    spent.gpu_hours += hours * gpus
    if price is None:
        spent.unknown = True
    else:
        spent.usd += hours * price


def _gpus_per_pool(pools: Mapping[str, Spent]) -> dict[str, int]:
    return {name: round(one.gpu_hours / one.instance_hours) for name, one in pools.items() if one.instance_hours}


def _add_jobs(found: Spending, jobs: Sequence[JobState], rates: Mapping[str, Decimal], gpus: Mapping[str, int]) -> None:
    """Add the cost of jobs: one node per worker, from the job's creation to its end."""
    used: dict[str, Decimal] = defaultdict(Decimal)
    for job in jobs:
        start, end = max(job.created, found.since), min(job.ended or found.until, found.until)
        hours = Decimal(str(max(0.0, (end - start).total_seconds()))) / HOUR * job.workers
        if job.phase == "Queued" or hours == 0:
            continue
        used[job.pool] += hours * gpus.get(job.pool, 0)
        for spent in (found.jobs[(job.namespace, job.name)], found.namespaces[job.namespace]):
            _add(spent, hours, rates.get(job.pool), gpus.get(job.pool, 0))
    for name, one in found.pools.items():
        if one.gpu_hours:
            found.idle_gpu_hours[name] = max(Decimal(0), one.gpu_hours - used[name])
