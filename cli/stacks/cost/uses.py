"""Find the nodes that jobs used. The data comes from the job controller's records or, for jobs without a record, from
the jobs' objects. Performs no I/O.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final

from cli.jobs.records import JobRecord
from cli.jobs.state import JobState
from infra.facts.spending import Market
from infra.platform.job_controller.in_pod.moments import parse_time
from infra.platform.job_controller.in_pod.phases import Phase

MARKETS: Final[Mapping[str, Market]] = {"ON_DEMAND": "on-demand", "SPOT": "spot", "CAPACITY_BLOCK": "capacity-block"}
"""Maps the value of the node label `eks.amazonaws.com/capacityType` to a market."""
Pools = Mapping[str, tuple[str, Market]]
"""Maps a pool to its instance type and market, from the stack file."""


@dataclass(frozen=True)
class Use:
    """Use of a node by one worker of a job, from the worker's start to its end."""

    namespace: str
    job: str
    pool: str
    instance_type: str
    """Empty if unknown."""
    zone: str
    market: Market
    node: str
    gpus: int | None
    """None means that the worker is assumed to use the whole node."""
    started: datetime
    ended: datetime | None = None
    """None while the worker runs."""

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.job


@dataclass(frozen=True)
class Uses:
    """Node usage of all jobs."""

    workers: Sequence[Use]
    incomplete: frozenset[tuple[str, str]] = frozenset()
    """Namespace and name of jobs whose records no longer list their oldest workers."""
    notes: tuple[str, ...] = ()
    """Notes on estimated and missing data."""

    @property
    def types(self) -> frozenset[str]:
        return frozenset(use.instance_type for use in self.workers) - {""}


def list_job_uses(records: Sequence[JobRecord], jobs: Sequence[JobState], pools: Pools) -> Uses:
    """Return the nodes that jobs used. Jobs in `jobs` that also have a record are counted only once, from the record."""
    recorded = {record.key for record in records}
    unrecorded = [job for job in jobs if job.key not in recorded and job.phase not in (Phase.QUEUED, Phase.SETUP)]
    lacking = [record.content for record in records if record.content.get("droppedGpuSeconds")]
    notes = []
    if unrecorded:
        names = ", ".join(f"{job.name} in {job.namespace}" for job in unrecorded)
        notes.append(f"jobs without a record, estimated as one node per worker from their creation to their end: {names}")
    notes += [
        f"the oldest workers of job {row['name']} in {row['namespace']}, which its record no longer contains" for row in lacking
    ]
    workers = [
        *(use for record in records for use in _list_recorded_uses(record.content, pools)),
        *_estimate_uses(unrecorded, pools),
    ]
    return Uses(workers, frozenset((row["namespace"], row["name"]) for row in lacking), tuple(notes))


def _list_recorded_uses(record: Mapping[str, Any], pools: Pools) -> Iterator[Use]:
    for worker in record["workers"]:
        pool = worker.get("pool") or record.get("pool") or _find_only_pool(worker["type"], pools)
        instance_type, market = pools.get(pool, ("", "on-demand"))
        yield Use(
            *(record["namespace"], record["name"], pool, worker["type"] or instance_type, worker["zone"]),
            *(MARKETS.get(worker["capacity"], market), worker["node"], worker["gpus"]),
            *(parse_time(worker["from"]), parse_time(worker["to"]) if worker["to"] else None),
        )


def _find_only_pool(instance_type: str, pools: Pools) -> str:
    """Return the pool with this instance type, for MPIJobs whose record lacks the pool; empty unless exactly one pool
    has this type.
    """
    matching = [name for name, (kind, _) in pools.items() if kind == instance_type]
    return matching[0] if len(matching) == 1 else ""


def _estimate_uses(jobs: Iterable[JobState], pools: Pools) -> Iterator[Use]:
    for job in jobs:
        instance_type, market = pools.get(job.pool, ("", "on-demand"))
        for index in range(job.workers):
            node = f"{job.namespace}/{job.name}/{index}"
            about = job.namespace, job.name, job.pool, instance_type, "", market
            yield Use(*about, node, None, job.created, job.ended)


def compute_node_hours(uses: Sequence[Use], gpus: Mapping[str, int], since: datetime, now: datetime) -> list[Decimal]:
    """Return the node hours for which each worker is charged. `gpus` maps instance types to GPUs per node.

    A worker is charged for its share of the node's GPUs. On a node without GPUs, concurrent workers are charged equal shares. CPU
    requests do not determine the shares, because they are only minimums and do not show how much CPU time each worker uses. A
    worker without GPUs on a GPU node is charged nothing, because the GPUs determine the node's price and stay free for other
    jobs.
    """
    hours = [Decimal(0)] * len(uses)
    together: dict[str, list[int]] = defaultdict(list)
    for index, use in enumerate(uses):
        each = gpus.get(use.instance_type, 0)
        start, end = _clip_to_period(use, since, now)
        if end <= start:
            continue
        if use.gpus is None or each:
            share = Decimal(1) if use.gpus is None else min(Decimal(1), Decimal(use.gpus) / each)
            hours[index] = _compute_hours(start, end) * share
        else:
            together[use.node].append(index)
    for indices in together.values():
        _divide_hours(hours, {index: _clip_to_period(uses[index], since, now) for index in indices})
    return hours


def _divide_hours(hours: list[Decimal], spans: Mapping[int, tuple[datetime, datetime]]) -> None:
    """Divide a node's time, at each moment, equally among the workers that were on the node."""
    times = sorted({time for span in spans.values() for time in span})
    for start, end in pairwise(times):
        present = [index for index, (first, last) in spans.items() if first <= start and end <= last]
        for index in present:
            hours[index] += _compute_hours(start, end) / len(present)


def _clip_to_period(use: Use, since: datetime, now: datetime) -> tuple[datetime, datetime]:
    return max(use.started, since), min(use.ended or now, now)


def _compute_hours(start: datetime, end: datetime) -> Decimal:
    return Decimal(str((end - start).total_seconds())) / 3600
