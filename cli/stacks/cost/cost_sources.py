"""Read data from AWS and the cluster, and compute the cost of a stack so far."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from cli.aws_queries import explain_query_error
from cli.clusters.kubernetes_access import Access, Cluster
from cli.errors import CommandError
from cli.exit_codes import UNREACHABLE
from cli.jobs import objects, records
from cli.stacks.cost.spending import Spending, compute_spending
from cli.stacks.cost.uses import Uses, list_job_uses
from infra.config.stack_file import RawStack
from infra.cost.prices import Prices
from infra.facts import ec2, price_list
from infra.facts.clients import Clients, Denied, query
from infra.facts.model import FactsError
from infra.facts.price_list import Wanted
from infra.facts.spending import Market, Run, fill_in_missing_types, list_instance_runs
from infra.naming import SYSTEM_POOL, Naming
from infra.preflight import examine_aws_stack
from infra.settings.pools import CapacityBlock, Spot
from infra.settings.stack import Settings


@dataclass(frozen=True)
class Ran:
    """Instances of a stack, the prices of the instance types, and the number of GPUs per type."""

    runs: Sequence[Run]
    prices: Prices
    gpus: dict[str, int]
    now: datetime
    """Time of the query, by AWS's clock."""


def read_instances(settings: Settings, uses: Uses | None = None) -> Ran:
    """Read the stack's instances, and the prices of all instance types that the stack or its jobs have used. Raises Denied
    or FactsError.
    """
    region = settings.region
    clients = query(region, lambda: Clients(region))
    completed_runs = fill_in_missing_types(
        query(region, lambda: list_instance_runs(clients, settings.stack)), _list_pool_types(settings)
    )
    types = {run.instance_type for run in completed_runs} - {""} | (uses.types if uses else frozenset())
    described = query(region, lambda: ec2.read_instance_types(clients, types)) if types else {}
    on_spot = [run.instance_type for run in completed_runs if run.market == "spot"]
    on_spot += [use.instance_type for use in uses.workers if use.market == "spot"] if uses else []
    spot = frozenset(on_spot) - {""}
    prices = price_list.read(Wanted(region, frozenset(types), spot))
    return Ran(completed_runs, prices, {name: instance.gpus for name, instance in described.items()}, clients.now())


def read_spending_so_far(raw: RawStack, connect: Callable[[], Cluster] | None = None) -> Spending | str:
    """Return the spending since the first instance, or the reason why it is unknown. Includes the spending of jobs only
    if `connect` is given.
    """
    settings = examine_aws_stack(raw, offline=True).settings
    if settings is None:
        return f"the stack file has errors. See `validate -s {raw.stack}`"
    try:
        return _compute_spending(settings, connect, since=None)
    except (Denied, FactsError) as error:
        return explain_query_error(error)


def read_spending(settings: Settings, access: Access, *, since: datetime | timedelta | None) -> Spending:
    """Return the spending, including that of jobs, since a date, or for a period that ends now. Raises CommandError
    or FactsError."""
    try:
        return _compute_spending(settings, access.connect, since=since)
    except Denied as denied:
        raise CommandError(explain_query_error(denied), UNREACHABLE) from None


def _compute_spending(
    settings: Settings, connect: Callable[[], Cluster] | None, *, since: datetime | timedelta | None
) -> Spending:
    uses, reason = _read_uses(settings, connect) if connect else (None, "")
    ran = read_instances(settings, uses)
    first = min((run.started for run in ran.runs), default=ran.now)
    begin = ran.now - since if isinstance(since, timedelta) else since or first
    spent = compute_spending(ran.runs, uses, ran.prices, ran.gpus, since=begin, now=ran.now)
    spent.unknown += [note for note in (ran.prices.missing, reason) if note]
    return spent


def _list_pool_types(settings: Settings) -> dict[str, tuple[str, Market]]:
    """Return the instance type and market of each pool, including the pool of EKS's system nodes."""
    pools = {pool.name: (pool.instance_type, _get_market(pool.capacity)) for pool in settings.pools}
    return {**pools, SYSTEM_POOL: (settings.eks.system.instance_type, "on-demand")} if settings.is_eks else pools


def _get_market(capacity: object) -> Market:
    match capacity:
        case Spot():
            return "spot"
        case CapacityBlock():
            return "capacity-block"
    return "on-demand"


def _read_uses(settings: Settings, connect: Callable[[], Cluster]) -> tuple[Uses | None, str]:
    """Return the node usage of all jobs, including deleted ones; if it could not be read, return None and the reason."""
    if not settings.is_eks:
        return None, "jobs: an EC2 cluster keeps no records of jobs"
    try:
        cluster = connect()
        described = cluster.description()
        if described.cluster != Naming(settings.stack).cluster:
            return None, f"jobs: the kubeconfig belongs to cluster {described.cluster}"
        recorded = [record for space in described.namespaces for record in records.list_records(cluster, space.name)]
        jobs = [job for space in described.namespaces for job in objects.list_jobs(cluster, space.name)]
        return list_job_uses(recorded, jobs, _list_pool_types(settings)), ""
    except CommandError as error:
        return None, f"jobs: {error}"
