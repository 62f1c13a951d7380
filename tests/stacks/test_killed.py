"""The engine is killed while it works on a cluster: `recover`, and the next run goes on as if nothing had been."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from signal import SIGKILL

import pytest
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from infra.recovery import Recovered
from localcloud.engine_events import EventLog
from localcloud.instance import LocalCloud
from localcloud.stack import LocalStack, Verb

pytestmark = pytest.mark.xdist_group("killed")

DATA = Path(__file__).parent / "data"
DELAY_FACTOR = 0.02
"""The control plane takes ten seconds: time enough to be killed in."""
MOMENTS = {
    "network": "aws:ec2/vpc:Vpc",
    "gateways": "aws:ec2/natGateway:NatGateway",
    "storage": "aws:efs/mountTarget:MountTarget",
    "control plane": "aws:eks/cluster:Cluster",
    "nodes": "aws:eks/nodeGroup:NodeGroup",
    "add-ons": "aws:eks/podIdentityAssociation:PodIdentityAssociation",
}
"""What the engine was creating when it was killed."""

Kinds = Counter[tuple[str, str]]


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    made = LocalCloud(tmp_path_factory.mktemp("killed") / "cloud")
    made.start(print, delay_factor=DELAY_FACTOR)
    yield made
    made.stop()


@pytest.fixture(scope="module")
def undisturbed(cloud: LocalCloud) -> Kinds:
    """How many of each kind of thing the account holds after an `up` that nobody killed."""
    stack = new_stack(cloud)
    up = stack.run("up")
    assert up.ok, up.output
    found = kinds(cloud)
    cloud.reset()
    return found


@pytest.fixture
def stack(cloud: LocalCloud, undisturbed: Kinds) -> Iterator[LocalStack]:
    yield new_stack(cloud)
    cloud.reset()


def new_stack(cloud: LocalCloud) -> LocalStack:
    made = LocalStack(cloud, "faults", DATA)
    made.prepare()
    return made


def kinds(cloud: LocalCloud) -> Kinds:
    return Counter((one["service"], one["container"].split(".")[0]) for one in cloud.control().leftovers())


def kill(stack: LocalStack, verb: Verb, moment: Callable[[EventLog], bool]) -> None:
    """Run the verb until then, and end its engine so that it can do nothing about it."""
    with stack.started(verb) as (engine, events):
        waiting = Retrying(retry=retry_if_result(lambda come: not come), wait=wait_fixed(0.01), stop=stop_after_delay(120))
        waiting(lambda: moment(events) or engine.poll() is not None)
        engine.kill()
        assert engine.stdout is not None
        output = engine.stdout.read()
    assert engine.returncode == -SIGKILL, f"it ended by itself:\n{output}"


def creating(token: str) -> Callable[[EventLog], bool]:
    return lambda events: events.is_creating(token)


def recovered(stack: LocalStack) -> Recovered:
    said: list[str] = []
    return stack.recover(said.append)


@pytest.mark.parametrize("token", MOMENTS.values(), ids=MOMENTS.keys())
def test_the_next_up_completes_what_a_killed_engine_began_and_makes_nothing_twice(
    stack: LocalStack, undisturbed: Kinds, token: str
) -> None:
    kill(stack, "up", creating(token))
    pending = stack.export()["deployment"]["pending_operations"]
    assert pending, "it was killed in the middle"

    recovered(stack)
    assert not stack.export()["deployment"].get("pending_operations")
    up = stack.run("up")
    assert up.ok, up.output
    assert not {"delete", "replace"} & set(up.changes), "what was there is used"
    assert kinds(stack.cloud) == undisturbed
    again = stack.run("up")
    assert (again.ok, again.changed) == (True, {}), again.output

    destroy = stack.run("destroy")
    assert destroy.ok, destroy.output
    assert stack.cloud.control().leftovers() == []


@pytest.mark.parametrize("token", MOMENTS.values(), ids=MOMENTS.keys())
def test_a_destroy_after_it_leaves_nothing(stack: LocalStack, token: str) -> None:
    kill(stack, "up", creating(token))
    recovered(stack)
    destroy = stack.run("destroy")
    assert destroy.ok, destroy.output
    assert stack.cloud.control().leftovers() == []
