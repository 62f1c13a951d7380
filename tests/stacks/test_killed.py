"""The engine is killed while it works on a cluster: `recover`, and the next run goes on as if nothing had been."""

from collections.abc import Iterator
from signal import SIGKILL
from typing import Final, NamedTuple

import pytest
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from infra.recovery.recover_stack import Recovered
from localcloud.instance import LocalCloud
from localcloud.stack import LocalStack, Run, Verb
from testkit.projects import client
from tests.stacks import editing
from tests.stacks.account import Kinds, goes_without_a_trace, kinds, kinds_undisturbed, new_stack

pytestmark = [pytest.mark.xdist_group("killed"), pytest.mark.checkpoints]

DELAY_FACTOR = 0.02
"""The control plane takes ten seconds: time enough to be killed in."""
LONG_DELAY_FACTOR = 0.1
"""The update of a cluster takes twelve seconds: `recover` must wait for it."""


class Moment(NamedTuple):
    """A call that AWS has just got when the engine is killed, and what then takes time. Nothing else takes any."""

    call: str
    slow: str = ""
    """A kind of localcloud.aws.durations; calls without one end while the engine saves its state."""


MOMENTS = {
    "network": Moment("ec2.CreateVpc"),
    "gateways": Moment("ec2.CreateNatGateway", "ec2-nat-gateway"),
    "storage": Moment("efs.CreateMountTarget", "efs-mount-target"),
    "control plane": Moment("eks.CreateCluster", "eks-cluster"),
    "nodes": Moment("eks.CreateNodegroup", "eks-node-group"),
    "pods' permissions": Moment("eks.CreatePodIdentityAssociation"),
}
GOES_ON: Final = ("network", "nodes")
"""Moments after which the next run is `up`; after the others it is `destroy`. Each takes a minute."""


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    made = LocalCloud(tmp_path_factory.mktemp("killed") / "cloud")
    made.start(print)
    yield made
    made.stop()


@pytest.fixture(scope="module")
def undisturbed(cloud: LocalCloud) -> Kinds:
    return kinds_undisturbed(cloud)


@pytest.fixture
def stack(cloud: LocalCloud, undisturbed: Kinds) -> Iterator[LocalStack]:
    yield new_stack(cloud)
    cloud.control().set_delays(0)
    cloud.reset()


def kill(stack: LocalStack, verb: Verb, moment: Moment, times: int = 1, factor: float = DELAY_FACTOR) -> None:
    """Run the verb until AWS got this call so often, and end its engine so that it can do nothing about it.

    What AWS has begun by then goes on taking its time.
    """
    control = stack.cloud.control()
    control.forget_calls()
    if moment.slow:
        control.set_delays(factor, moment.slow)
    waiting = Retrying(retry=retry_if_result(lambda come: not come), wait=wait_fixed(0.01), stop=stop_after_delay(120))
    with stack.started(verb) as (engine, _):
        waiting(lambda: control.writes().get(moment.call, 0) >= times or engine.poll() is not None)
        engine.kill()
        assert engine.stdout is not None
        output = engine.stdout.read()
    control.set_delays(0)
    assert engine.returncode == -SIGKILL, f"it ended by itself:\n{output}"


def pending(stack: LocalStack) -> list[str]:
    """Kinds of the operations that the state says were begun; where a kill cut it short, its backup, as for `recover`."""
    stack.mend()
    return sorted({one["type"] for one in stack.export()["deployment"].get("pending_operations") or ()})


def goes_up(stack: LocalStack) -> Run:
    """And then stays as it is."""
    up = stack.run("up")
    assert up.ok, up.output
    again = stack.run("up")
    assert (again.ok, again.changed) == (True, {}), again.output
    return up


def recovered(stack: LocalStack) -> Recovered:
    said: list[str] = []
    return stack.recover(said.append)


@pytest.mark.parametrize("moment", GOES_ON)
def test_the_next_up_completes_what_a_killed_engine_began_and_makes_nothing_twice(
    stack: LocalStack, undisturbed: Kinds, moment: str
) -> None:
    kill(stack, "up", MOMENTS[moment])
    assert pending(stack) == ["creating"], "it was killed in the middle"
    recovered(stack)
    assert pending(stack) == []
    up = goes_up(stack)
    assert not {"delete", "replace"} & set(up.changes), "what was there is used, and completed"
    assert kinds(stack.cloud) == undisturbed
    goes_without_a_trace(stack)


@pytest.mark.parametrize("moment", [one for one in MOMENTS if one not in GOES_ON])
def test_a_destroy_after_it_leaves_nothing(stack: LocalStack, moment: str) -> None:
    kill(stack, "up", MOMENTS[moment])
    recovered(stack)
    goes_without_a_trace(stack)


def test_a_destroy_that_was_killed_goes_on(stack: LocalStack) -> None:
    assert stack.run("up").ok
    kill(stack, "destroy", Moment("eks.DeleteNodegroup", "eks-node-group-delete"))
    assert pending(stack) == ["deleting"]
    recovered(stack)
    goes_without_a_trace(stack)


def test_an_update_that_was_killed_goes_on(stack: LocalStack, undisturbed: Kinds) -> None:
    assert stack.run("up").ok
    public = {"public": True, "publicCidrs": ["203.0.113.0/24"]}
    editing.write(stack, editing.with_changes(editing.read(stack), {"target.endpointAccess": public}))
    kill(stack, "up", Moment("eks.UpdateClusterConfig", "eks-cluster-update"), factor=LONG_DELAY_FACTOR)
    assert pending(stack) == ["updating"]
    assert recovered(stack).changed == ["gpumpi-faults-cluster"]
    goes_up(stack)
    access = client(stack.cloud, "eks").describe_cluster(name="gpumpi-faults")["cluster"]["resourcesVpcConfig"]
    assert access["publicAccessCidrs"] == ["203.0.113.0/24"]
    assert set(kinds(stack.cloud)) == set(undisturbed)
    goes_without_a_trace(stack)


def test_a_replacement_that_was_killed_leaves_one_of_the_two(stack: LocalStack, undisturbed: Kinds) -> None:
    assert stack.run("up").ok
    editing.write(stack, editing.with_changes(editing.read(stack), {"pools[1].instanceType": "g5.2xlarge"}))
    kill(stack, "up", MOMENTS["nodes"])
    assert "creating" in pending(stack)
    assert recovered(stack).surplus
    goes_up(stack)
    eks = client(stack.cloud, "eks")
    groups = eks.list_nodegroups(clusterName="gpumpi-faults")["nodegroups"]
    types = [eks.describe_nodegroup(clusterName="gpumpi-faults", nodegroupName=one)["nodegroup"]["tags"] for one in groups]
    assert sorted(tags["gpumpi:pool"] for tags in types) == ["spare", "system", "train"]
    assert kinds(stack.cloud)["eks", "clusters"] == undisturbed["eks", "clusters"]
    goes_without_a_trace(stack)


def test_nodes_that_failed_meanwhile_are_replaced(stack: LocalStack, undisturbed: Kinds) -> None:
    no_capacity = {"service": "ec2", "operation": "RunInstances", "code": "InsufficientInstanceCapacity", "times": 50}
    stack.cloud.control().plan_fault(**no_capacity, match={"InstanceType": "g5.8xlarge"})
    kill(stack, "up", MOMENTS["nodes"], times=len(("system", "train", "spare")))
    found = recovered(stack).found
    stack.cloud.control().clear_faults()
    assert any(name.startswith("gpumpi-faults-train (") for name in found)
    up = goes_up(stack)
    assert up.changes["replace"] == 1
    assert kinds(stack.cloud) == undisturbed
    goes_without_a_trace(stack)


def test_what_an_up_without_recovery_made_twice_goes_with_the_next(stack: LocalStack, undisturbed: Kinds) -> None:
    kill(stack, "up", MOMENTS["network"])
    stack.unlock()  # `recover` would settle what was begun, too
    assert stack.run("up").ok
    recovered(stack)
    goes_up(stack)
    assert kinds(stack.cloud) == undisturbed
    goes_without_a_trace(stack)
