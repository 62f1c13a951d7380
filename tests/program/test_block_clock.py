"""A pool in a Capacity Block, from `pulumi up` before the block starts until its end."""

from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from infra.config.preflight import examine_aws
from infra.config.stack_file import RawStack
from infra.facts.clients import Clients
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


def test_a_pool_gets_its_nodes_when_its_block_starts_and_loses_them_45_minutes_before_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = datetime(2026, 11, 23, 9, tzinfo=UTC)
    monkeypatch.setattr(clock, "system", lambda: now)
    later = RawStack("block", REGION, VALUES)
    with MotoMocks(later.region) as mocks:
        seed = partial(capacity_reservations.seed, kind="capacity-block", state="scheduled", reservation_id=BLOCK)
        seed("p5.48xlarge", f"{REGION}a", 2, starts_in_hours=26.5, days=2)
        prerequisites.make(later.region, later.values)
        deploy(*examine_aws(later).whole, mocks)
        sizes = []
        for hours in (0, 26.4, 0.2, 47.1, 0.1, 0.2):
            clock.advance(timedelta(hours=hours))
            sizes.append((round((clock.now() - now) / timedelta(hours=1) - 26.5, 1), _running()))
    assert sizes == [(-26.5, 0), (-0.1, 0), (0.1, 2), (47.2, 2), (47.3, 0), (47.5, 0)]


def _running() -> int:
    """Return the number of instances of the pool in service."""
    groups = Clients(REGION).autoscaling.describe_auto_scaling_groups()["AutoScalingGroups"]
    (found,) = [one for one in groups if "train" in one["AutoScalingGroupName"]]
    return len([one for one in found["Instances"] if one["LifecycleState"] == "InService"])
