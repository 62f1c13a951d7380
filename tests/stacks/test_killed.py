"""The engine is killed while it creates a cluster: the next `up` completes it, and nothing is there twice."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from localcloud.engine_events import EventLog
from localcloud.instance import LocalCloud
from localcloud.stack import LocalStack

DELAY_FACTOR = 0.02
"""The control plane takes ten seconds: time enough to be killed in."""
CLUSTER = "aws:eks/cluster:Cluster"


@pytest.fixture
def slow_cloud(cloud: LocalCloud) -> Iterator[LocalCloud]:
    cloud.control().set_delays(DELAY_FACTOR)
    yield cloud
    cloud.control().set_delays(0)


def await_creation_of(token: str, events: EventLog) -> None:
    """The engine has asked for it and has no answer yet."""
    begun = retry_if_result(lambda found: not found)
    Retrying(retry=begun, wait=wait_fixed(0.02), stop=stop_after_delay(120))(lambda: events.is_creating(token))


def kinds(cloud: LocalCloud) -> Counter[tuple[str, str]]:
    return Counter((one["service"], one["container"].split(".")[0]) for one in cloud.control().leftovers())


def test_the_next_up_completes_what_a_killed_engine_began_and_makes_nothing_twice(slow_cloud: LocalCloud, stacks: Path) -> None:
    stack = LocalStack(slow_cloud, "local", stacks)
    stack.prepare()
    with stack.started("up") as (engine, events):
        await_creation_of(CLUSTER, events)
        engine.kill()
        assert engine.stdout is not None
        engine.stdout.read()
    assert engine.returncode != 0

    stack.recover()
    up = stack.run("up")
    assert up.ok, up.output
    assert up.changes["create"] > 0, "it was killed in the middle"
    again = stack.run("up")
    assert not again.changed, again.output

    slow_cloud.control().set_delays(0)
    after_the_kill = kinds(slow_cloud)
    assert stack.run("destroy").ok
    assert slow_cloud.control().leftovers() == []
    assert stack.run("up").ok
    assert kinds(slow_cloud) == after_the_kill, "as many of each kind as without a kill"
    assert stack.run("destroy").ok
