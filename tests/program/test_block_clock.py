"""A pool in a Capacity Block, from `pulumi up` before the block's start to the block's end."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from cli.clusters.status.in_aws import EksAccount
from cli.stacks.plan import plan_command
from cli.stacks.plan.changes import Changes
from infra.checks.model import Answer
from infra.config.stack_file import RawStack
from infra.facts.clients import Clients
from infra.plan import block_clock
from infra.plan.specs import BlockSchedule
from infra.preflight import examine_aws_stack
from infra.validation.registry import Topic
from localcloud.aws import clock, prerequisites
from localcloud.aws.ec2 import capacity_reservations
from localcloud.engine.mocks import MotoMocks
from tests.program.engine import deploy

REGION = "us-west-2"
BLOCK = "cr-0123456789abcdef0"
POOL = {"name": "train", "instanceType": "p5.48xlarge", "minSize": 0, "maxSize": 2, "desiredSize": 0}
VALUES = {
    "target": {"kind": "eks"},
    "platform": {"install": False, "autoscaler": False},
    "storage": {"efs": "none"},
    "pools": [{**POOL, "capacity": {"kind": "capacity-block", "reservationId": BLOCK}}],
}
STACK = RawStack("block", REGION, VALUES)
NOW = datetime(2026, 11, 23, 9, tzinfo=UTC)
UNTIL = "nodes are drained from 2026-11-26 10:45 UTC"


@pytest.fixture(autouse=True)
def purchased_block(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A deployed stack whose Capacity Block starts in 26.5 hours and lasts two days. This machine's clock is frozen."""
    monkeypatch.setattr(clock, "read_system_clock", lambda: NOW)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with MotoMocks(REGION) as mocks:
        capacity_reservations.seed_reservation(
            *("p5.48xlarge", f"{REGION}a", 2),
            kind="capacity-block",
            state="scheduled",
            reservation_id=BLOCK,
            starts_in_hours=26.5,
            days=2,
        )
        prerequisites.create_prerequisites(REGION, VALUES)
        deploy(*examine_aws_stack(STACK).settings_and_facts, mocks)
        yield


def test_a_pool_gets_nodes_when_its_block_starts_and_loses_them_45_minutes_before_its_end() -> None:
    sizes = []
    for hours in (0, 26.4, 0.2, 47.1, 0.1, 0.2):
        clock.advance(timedelta(hours=hours))
        sizes.append((round((clock.now() - NOW) / timedelta(hours=1) - 26.5, 1), _count_running()))
    assert sizes == [(-26.5, 0), (-0.1, 0), (0.1, 2), (47.2, 2), (47.3, 0), (47.5, 0)]


def test_plan_up_and_status_use_the_same_aws_clock() -> None:
    """As with `local clock --advance`, the local AWS's clock advances while this machine's clock does not."""
    observed = []
    for hours in (0, 25.5, 2, 46.5):
        clock.advance(timedelta(hours=hours))
        planned = _read_plan_text()
        assert planned == _read_status_text()
        observed.append((planned, _find_block_schedule()))
    start, drain = "2026-11-24T11:30:00Z", "2026-11-26T10:45:00Z"
    assert observed == [
        (f"Capacity Block {BLOCK} is scheduled: nodes start in 1 d 2 h; {UNTIL}", BlockSchedule(start, drain, 2, 0)),
        (f"Capacity Block {BLOCK} is scheduled: nodes start in 1 h; {UNTIL}", BlockSchedule(start, drain, 2, 0)),
        (f"Capacity Block {BLOCK}: 1 d 23 h left; {UNTIL}", BlockSchedule(None, drain, 2, 0)),
        (f"Capacity Block {BLOCK}: 30 min left; its nodes are being drained", None),
    ]


def test_plan_warns_about_a_capacity_block_that_ends_soon() -> None:
    clock.advance(timedelta(hours=26.5 + 47.5))
    [answer] = _list_answers()
    assert [warning.partition(":")[0] for warning in answer.warnings] == ["pools[0].capacity.reservationId"]


def _list_answers() -> list[Answer]:
    report = plan_command.build_report(STACK, offline=False, look_ahead=lambda: Changes({}, not_previewed="not needed"))
    return [answer for answer in report.answers if answer.check == Topic.RESERVATIONS]


def _read_plan_text() -> str:
    [answer] = _list_answers()
    assert answer.verdict == "yes"
    return " ".join(answer.sentences)


def _read_status_text() -> str:
    account = EksAccount(STACK.stack, REGION)
    cluster = account.cluster()
    assert cluster is not None
    status = account.status(cluster)
    [block] = [pool.capacity_block for pool in status.pools if pool.capacity_block]
    assert status.aws_time is not None
    return block.sentence(status.aws_time)


def _find_block_schedule() -> BlockSchedule | None:
    """Return the scheduled actions that `pulumi up` would create now."""
    settings, facts = examine_aws_stack(STACK).settings_and_facts
    return block_clock.plan_block_schedule(settings.pools[0], facts)


def _count_running() -> int:
    """Return the number of the pool's instances in service."""
    groups = Clients(REGION).autoscaling.describe_auto_scaling_groups()["AutoScalingGroups"]
    (group,) = [group for group in groups if "train" in group["AutoScalingGroupName"]]
    return len([instance for instance in group["Instances"] if instance["LifecycleState"] == "InService"])
