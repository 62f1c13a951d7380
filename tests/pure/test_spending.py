"""Spending so far: instance-hours times prices, each job's share, and GPUs that no job used."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from rich.console import Console

from cli.errors import CommandError
from cli.jobs.records import JobRecord
from cli.jobs.state import JobState
from cli.stacks.cost.cost_command import parse_since, print_spending
from cli.stacks.cost.spending import Spending, compute_spending
from cli.stacks.cost.uses import Pools, Uses, list_job_uses
from infra.facts.spending import Run
from infra.platform.job_controller.in_pod.phases import Phase
from tests.pure.bill_world import make_price, make_prices

START = datetime(2026, 11, 23, 9, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
NOW = START + 4 * HOUR
GPUS = {"p4d.24xlarge": 8, "m7i.large": 0}


def make_run(name: str = "i-1", instance_type: str = "p4d.24xlarge", **more: Any) -> Run:
    pool = "system" if instance_type == "m7i.large" else "train"
    return replace(Run(name, pool, instance_type, "us-west-2a", "on-demand", "physics", START), **more)


def make_job_state(name: str = "simulate", phase: str = "Running", **more: Any) -> JobState:
    state = JobState(name, "team-a", "MPIJob", name, "mpirun", "train", 1, Phase(phase), "", 0, START + HOUR, None)
    return replace(state, **more)


def make_worker(hours: tuple[float, float | None], node: str = "n1", gpus: int = 8, **more: Any) -> dict[str, Any]:
    """Return a worker's entry in a job record. `hours` are the worker's start and end, counted from START."""
    start, end = (None if hour is None else (START + hour * HOUR).isoformat() for hour in hours)
    about = {"type": "p4d.24xlarge", "zone": "us-west-2a", "capacity": "ON_DEMAND", "pool": "train"}
    return {"uid": f"{node}-{start}", "node": node, "gpus": gpus, "from": start, "to": end, **about, **more}


def make_record(*workers: dict[str, Any], name: str = "simulate", namespace: str = "team-a", **more: Any) -> JobRecord:
    about = {"namespace": namespace, "name": name, "created": START.isoformat(), "pool": "train"}
    return JobRecord(f"{name}-record", {**about, "workers": list(workers), **more})


def compute_uses(*records: JobRecord, jobs: list[JobState] | None = None) -> Uses:
    pools: Pools = {"train": ("p4d.24xlarge", "on-demand"), "system": ("m7i.large", "on-demand")}
    return list_job_uses(records, jobs or [], pools)


def compute_test_spending(runs: list[Run], uses: Uses | None = None, since: datetime = START) -> Spending:
    return compute_spending(runs, uses, make_prices(), GPUS, since=since, now=NOW)


def test_each_instance_costs_its_price_for_the_hours_that_it_ran() -> None:
    costs = compute_test_spending([make_run(), make_run("i-2", ended=START + HOUR), make_run("i-3", "m7i.large")])
    assert costs.pools["train"].usd == 5 * Decimal("21.95764")
    assert costs.pools["system"].usd == 4 * Decimal("0.1008")
    assert costs.total.usd == costs.cost_centers["physics"].usd == costs.pools["train"].usd + costs.pools["system"].usd
    assert (costs.pools["train"].instance_hours, costs.pools["train"].gpu_hours) == (5, 40)


def test_hours_before_the_period_do_not_count() -> None:
    costs = compute_test_spending([make_run(), make_run("i-2", ended=START + HOUR)], since=START + 3 * HOUR)
    assert costs.total.instance_hours == 1


@pytest.mark.parametrize(("market", "usd"), [("capacity-block", Decimal(0)), ("spot", 4 * Decimal("8.50"))])
def test_capacity_block_is_prepaid_and_spot_instances_cost_the_zone_price(market: Any, usd: Decimal) -> None:
    spot_prices = replace(make_prices(), spot={("p4d.24xlarge", "us-west-2a"): make_price("8.50")})
    assert compute_spending([make_run(market=market)], None, spot_prices, GPUS, since=START, now=NOW).total.usd == usd


def test_unknown_price_is_named_and_makes_the_total_a_lower_bound() -> None:
    costs = compute_test_spending([make_run(), make_run("i-2", "p5e.48xlarge"), make_run("i-3", "p5e.48xlarge")])
    assert costs.unknown == ["the on-demand price of p5e.48xlarge in us-east-1"]
    assert (costs.total.as_json()["usd"], costs.total.usd) == (None, 4 * Decimal("21.95764"))
    console = Console(width=100)
    with console.capture() as shown:
        print_spending(console, "mine", costs)
    assert "at least 87.83" in shown.get()
    assert "unknown: the on-demand price of p5e.48xlarge" in shown.get()


def test_job_is_charged_for_nodes_held_by_its_workers_even_after_deletion() -> None:
    two = make_record(make_worker((1, 3)), make_worker((1, 3), "n2"))
    costs = compute_test_spending(
        [make_run(), make_run("i-2")],
        compute_uses(two, make_record(make_worker((1, None), "n3"), name="other", namespace="team-b")),
    )
    assert costs.jobs[("team-a", "simulate")].usd == costs.namespaces["team-a"].usd == 4 * Decimal("21.95764")
    assert costs.namespaces["team-b"].gpu_hours == 24
    assert costs.unknown == []


def test_time_in_the_queue_and_between_attempts_costs_nothing() -> None:
    costs = compute_test_spending([make_run()], compute_uses(make_record(make_worker((2, 2.5)), make_worker((3, 3.5)))))
    assert costs.jobs[("team-a", "simulate")].instance_hours == 1
    assert not compute_test_spending([make_run()], compute_uses(make_record())).jobs


def test_jobs_on_one_node_share_its_cost_by_gpus() -> None:
    costs = compute_test_spending(
        [make_run()],
        compute_uses(
            make_record(make_worker((0, 4), gpus=2), make_worker((0, 4), gpus=2)),
            make_record(make_worker((0, 4), gpus=4), name="b"),
        ),
    )
    assert costs.jobs[("team-a", "simulate")].usd == costs.jobs[("team-a", "b")].usd == 2 * Decimal("21.95764")
    assert costs.idle_gpu_hours == {"train": 0}


def test_workers_on_a_node_without_gpus_share_its_cost_equally_over_time() -> None:
    cpu: dict[str, Any] = {"type": "m7i.large", "pool": "system", "gpus": 0}
    alone_then_shared = make_record(make_worker((0, 4), **cpu))
    costs = compute_test_spending(
        [make_run("i-1", "m7i.large")], compute_uses(alone_then_shared, make_record(make_worker((2, 4), **cpu), name="b"))
    )
    assert [costs.jobs[("team-a", name)].instance_hours for name in ("simulate", "b")] == [3, 1]
    assert costs.namespaces["team-a"].usd == costs.pools["system"].usd


def test_a_worker_without_gpus_on_a_gpu_node_leaves_its_gpus_idle() -> None:
    assert compute_test_spending([make_run()], compute_uses(make_record(make_worker((0, 4), gpus=0)))).idle_gpu_hours == {
        "train": 32
    }


def test_foreign_mpijob_is_counted_in_the_pool_of_its_nodes() -> None:
    costs = compute_test_spending(
        [make_run()],
        compute_uses(make_record(make_worker((0, 1)), pool=""), make_record(make_worker((1, 2), pool=""), name="old", pool="")),
    )
    assert costs.idle_gpu_hours == {"train": 16}


def test_record_without_its_oldest_workers_gives_a_lower_bound_of_the_cost() -> None:
    costs = compute_test_spending([make_run()], compute_uses(make_record(make_worker((1, 2)), droppedGpuSeconds=60.0)))
    assert costs.jobs[("team-a", "simulate")].unknown and costs.namespaces["team-a"].unknown
    assert costs.unknown == ["the oldest workers of job simulate in team-a, which its record no longer contains"]


def test_jobs_without_a_record_are_estimated_from_their_objects() -> None:
    live = [make_job_state(workers=2, phase="Succeeded", ended=START + 3 * HOUR), make_job_state("waiting", phase="Queued")]
    costs = compute_test_spending([make_run(), make_run("i-2")], compute_uses(jobs=live))
    assert costs.jobs[("team-a", "simulate")].usd == 4 * Decimal("21.95764")
    assert costs.jobs.keys() == {("team-a", "simulate")}
    assert costs.unknown == [
        "jobs without a record, estimated as one node per worker from their creation to their end: simulate in team-a",
    ]


def test_job_with_a_record_is_not_counted_twice() -> None:
    costs = compute_test_spending(
        [make_run()], compute_uses(make_record(make_worker((1, 2)), created=(START + HOUR).isoformat()), jobs=[make_job_state()])
    )
    assert (costs.jobs[("team-a", "simulate")].instance_hours, costs.unknown) == (1, [])


def test_foreign_job_without_a_known_pool_has_unknown_cost() -> None:
    costs = compute_test_spending([make_run()], compute_uses(jobs=[make_job_state("ray", pool="")]))
    assert costs.jobs[("team-a", "ray")].as_json()["usd"] is None
    assert "the instance type of job ray in team-a" in costs.unknown


def test_gpu_hours_not_used_by_a_job_count_as_idle() -> None:
    costs = compute_test_spending([make_run(), make_run("i-2", "m7i.large")], compute_uses(make_record(make_worker((1, 2)))))
    assert costs.idle_gpu_hours == {"train": 24}
    console = Console(width=100)
    with console.capture() as shown:
        print_spending(console, "mine", costs)
    assert "pool train: 24.00 GPU hours without a job" in shown.get()


def test_idle_gpus_are_unknown_if_jobs_are_unknown() -> None:
    assert compute_test_spending([make_run()]).idle_gpu_hours == {}


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("12h", 12 * HOUR),
        ("7d", timedelta(days=7)),
        ("2w", timedelta(weeks=2)),
        ("2026-11-01", datetime(2026, 11, 1, tzinfo=UTC)),
        ("2026-11-01T10:00+01:00", datetime(2026, 11, 1, 9, tzinfo=UTC)),
    ],
)
def test_since_option_accepts_a_period_or_a_date(text: str, start: datetime | timedelta) -> None:
    assert parse_since(text) == start


def test_invalid_since_option_is_refused_with_examples() -> None:
    with pytest.raises(CommandError, match=r"yesterday is neither a period nor a date\. Use 12h, 7d, 2w, or 2026-11-01"):
        parse_since("yesterday")
