"""One-line cost estimates for `init` and `submit`."""

from decimal import Decimal

from infra.cost.prices import Prices, read_snapshot
from infra.facts.model import Facts
from infra.inventory.bill import LEVELS, Bill, Level, compute_bill
from infra.jobs.cluster import ClusterDescription
from infra.jobs.model import Job
from infra.jobs.sizing import compute_worker_size, count_workers_per_node
from infra.settings.stack import Settings


def format_stack_cost(settings: Settings, facts: Facts | None, prices: Prices) -> str:
    """Return the hourly cost of a stack, such as `cost in USD per hour: 0.37 idle, 44.30 configured, 88.35 maximum
    (snapshot, DATE)`.
    """
    try:
        costs = compute_bill(settings, facts, prices)
    except LookupError:
        costs = compute_bill(settings, None, prices)
    levels = ", ".join(_format_level(costs, level) for level in LEVELS)
    return f"cost in USD per hour: {levels} ({_format_price_source(prices, costs)})"


def _format_level(bill: Bill, level: Level) -> str:
    total = bill.total(level)
    return f"{total.hourly:,.2f} {level}" if total.is_known else f"{level} unknown ({', '.join(total.unknown)})"


def _format_price_source(prices: Prices, bill: Bill) -> str:
    kind = "AWS Price List" if prices.kind == "Price List" else "snapshot"
    return f"{kind}, {bill.date}{', not verified' if bill.has_unverified_prices else ''}"


def format_job_cost(job: Job, cluster: ClusterDescription) -> str | None:
    """Return the hourly cost of a job's nodes, at the prices in the snapshot; None if the nodes are not in AWS."""
    pool = cluster.pool(job.pool)
    if pool is None or not pool.instance_type or not cluster.region:
        return None
    each = max(1, count_workers_per_node(job, compute_worker_size(job, pool), pool, cluster.cpu_request_factor))
    nodes = -(-job.workers // each)
    what = f"cost: {nodes} x {pool.instance_type}"
    if pool.market == "capacity-block":
        return f"{what}, prepaid (Capacity Block)"
    prices = read_snapshot(cluster.region)
    price = prices.spot_price(pool.instance_type, None) if pool.market == "spot" else prices.on_demand(pool.instance_type)
    market = ", spot" if pool.market == "spot" else ""
    if price is None:
        return f"{what}{market}: unknown, because there is no price for {cluster.region}"
    total: Decimal = price.usd * nodes
    mark = "" if price.verified else ", not verified"
    return f"{what}{market}: {total:,.2f} USD per hour (snapshot, {price.date}{mark})"
