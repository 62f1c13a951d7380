"""Schedule of a Capacity Block: when its pool grows and shrinks, and what `status` shows."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import cast

import pytest

from cli.clusters.status.cluster_status import BlockStatus
from infra.facts.model import CapacityReservation, Facts
from infra.plan import block_clock
from infra.plan.specs import BlockSchedule
from tests.pure.world import load_settings

START = datetime(2026, 11, 24, 11, 30, tzinfo=UTC)
END = START + timedelta(days=7)
BLOCK = "cr-0123456789abcdef0"
RESERVATION = CapacityReservation(
    BLOCK,
    "capacity-block",
    "scheduled",
    "p5.48xlarge",
    "us-west-2a",
    2,
    0,
    start=START,
    end=END,
    read_at=START - timedelta(days=1),
)
POOL = {
    "name": "train",
    "instanceType": "p5.48xlarge",
    "minSize": 0,
    "maxSize": 4,
    "capacity": {"kind": "capacity-block", "reservationId": BLOCK},
}


def make_schedule(**changes: object) -> BlockSchedule | None:
    [pool] = load_settings({"target": {"kind": "eks"}, "pools": [POOL]}, region="us-west-2").pools
    facts = SimpleNamespace(reservations={BLOCK: replace(RESERVATION, **changes)})  # type: ignore[arg-type]
    return block_clock.plan_block_schedule(pool, cast(Facts, facts))


def test_future_block_grows_pool_at_start_and_drains_45_minutes_before_end() -> None:
    assert make_schedule() == BlockSchedule(start="2026-11-24T11:30:00Z", drain="2026-12-01T10:45:00Z", nodes=2, minimum=0)


def test_started_block_schedules_only_the_drain() -> None:
    timetable = make_schedule(state="active", read_at=START + timedelta(hours=1))
    assert timetable is not None and (timetable.start, timetable.drain) == (None, "2026-12-01T10:45:00Z")


@pytest.mark.parametrize(
    "changes",
    [
        {"state": "active", "read_at": END - timedelta(minutes=45)},
        {"state": "expired", "read_at": END},
        {"state": "payment-failed"},
        {"end": None},
    ],
)
def test_no_schedule_is_created_for_past_times_or_without_a_block(changes: dict[str, object]) -> None:
    assert make_schedule(**changes) is None


@pytest.mark.parametrize(
    ("state", "now", "sentence"),
    [
        (
            "scheduled",
            START - timedelta(hours=3, minutes=20),
            "Capacity Block cr-1 is scheduled: nodes start in 3 h 20 min; nodes are drained from 2026-12-01 10:45 UTC",
        ),
        (
            "active",
            END - timedelta(days=2, hours=1),
            "Capacity Block cr-1: 2 d 1 h left; nodes are drained from 2026-12-01 10:45 UTC",
        ),
        ("active", END - timedelta(minutes=44), "Capacity Block cr-1: 44 min left; its nodes are being drained"),
        ("expired", END, "Capacity Block cr-1 is expired"),
    ],
)
def test_status_shows_remaining_time_of_capacity_block_nodes(state: str, now: datetime, sentence: str) -> None:
    assert BlockStatus("cr-1", state, START, END).sentence(now) == sentence


@pytest.mark.parametrize(
    ("state", "now", "sentence"),
    [
        ("scheduled", START - timedelta(hours=3), "Capacity Block cr-1 is scheduled: starts in 3 h"),
        ("active", END - timedelta(hours=3), "Capacity Block cr-1: 3 h left"),
    ],
)
def test_nodes_of_an_ec2_cluster_do_not_start_with_their_block(state: str, now: datetime, sentence: str) -> None:
    assert BlockStatus("cr-1", state, START, END, moves_nodes=False).sentence(now) == sentence
