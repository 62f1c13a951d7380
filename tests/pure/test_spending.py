"""Spending so far: instance-hours times prices, the share of jobs, and GPUs that no job used."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from rich.console import Console

from cli.cost.spending import Spending, spending
from cli.cost.verb import parse_since, show
from cli.errors import CommandError
from cli.job_state import JobState
from infra.facts.spending import Run
from tests.pure.bill_world import price, prices

START = datetime(2026, 11, 23, 9, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
NOW = START + 4 * HOUR
GPUS = {"p4d.24xlarge": 8, "m7i.large": 0}


def run(name: str = "i-1", instance_type: str = "p4d.24xlarge", **more: Any) -> Run:
    pool = "system" if instance_type == "m7i.large" else "train"
    return replace(Run(name, pool, instance_type, "us-west-2a", "on-demand", "physics", START), **more)


def job(name: str = "simulate", phase: Any = "Running", **more: Any) -> JobState:
    found = JobState(name, "team-a", "MPIJob", name, "mpirun", "train", 1, phase, "", 0, START + HOUR, None)
    return replace(found, **more)


def spent(runs: list[Run], jobs: Sequence[JobState] | None = None, since: datetime = START) -> Spending:
    return spending(runs, jobs, prices(), GPUS, since=since, now=NOW)


def test_each_instance_costs_its_price_for_the_hours_that_it_ran() -> None:
    found = spent([run(), run("i-2", ended=START + HOUR), run("i-3", "m7i.large")])
    assert found.pools["train"].usd == 5 * Decimal("21.95764")
    assert found.pools["system"].usd == 4 * Decimal("0.1008")
    assert found.total.usd == found.cost_centers["physics"].usd == found.pools["train"].usd + found.pools["system"].usd
    assert (found.pools["train"].instance_hours, found.pools["train"].gpu_hours) == (5, 40)


def test_hours_before_the_period_do_not_count() -> None:
    found = spent([run(), run("i-2", ended=START + HOUR)], since=START + 3 * HOUR)
    assert found.total.instance_hours == 1


@pytest.mark.parametrize(("market", "usd"), [("capacity-block", Decimal(0)), ("spot", 4 * Decimal("8.50"))])
def test_a_block_is_prepaid_and_spot_instances_cost_the_price_of_their_zone(market: Any, usd: Decimal) -> None:
    known = replace(prices(), spot={("p4d.24xlarge", "us-west-2a"): price("8.50")})
    assert spending([run(market=market)], None, known, GPUS, since=START, now=NOW).total.usd == usd


def test_an_unknown_price_is_named_and_makes_the_sum_a_lower_bound() -> None:
    found = spent([run(), run("i-2", "p5e.48xlarge"), run("i-3", "p5e.48xlarge")])
    assert found.unknown == ["the on-demand price of p5e.48xlarge in us-east-1"]
    assert (found.total.as_json()["usd"], found.total.usd) == (None, 4 * Decimal("21.95764"))
    console = Console(width=100)
    with console.capture() as shown:
        show(console, "mine", found)
    assert "at least 87.83" in shown.get()
    assert "unknown: the on-demand price of p5e.48xlarge" in shown.get()


def test_a_job_costs_its_nodes_from_its_start_to_its_end() -> None:
    two = job(workers=2, phase="Succeeded", ended=START + 3 * HOUR)
    found = spent([run(), run("i-2")], [two, job("other", namespace="team-b")])
    assert found.jobs[("team-a", "simulate")].usd == found.namespaces["team-a"].usd == 4 * Decimal("21.95764")
    assert found.namespaces["team-b"].gpu_hours == 24


def test_queued_jobs_cost_nothing() -> None:
    assert not spent([run()], [job(phase="Queued")]).jobs


def test_gpu_hours_without_a_job_are_idle() -> None:
    found = spent([run(), run("i-2", "m7i.large")], [job(ended=START + 2 * HOUR, phase="Succeeded")])
    assert found.idle_gpu_hours == {"train": 24}
    console = Console(width=100)
    with console.capture() as shown:
        show(console, "mine", found)
    assert "pool train: 24.00 GPU hours without a job" in shown.get()


def test_without_jobs_nobody_knows_which_gpus_were_idle() -> None:
    assert spent([run()]).idle_gpu_hours == {}


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
def test_since_is_a_period_or_a_date(text: str, start: datetime | timedelta) -> None:
    assert parse_since(text) == start


def test_another_since_is_refused_with_examples() -> None:
    with pytest.raises(CommandError, match=r"yesterday is no period and no date\. Use 12h, 7d, 2w, or 2026-11-01"):
        parse_since("yesterday")
