"""The engine is killed during an operation on a cluster. After `recover`, the next operation continues normally."""

from collections.abc import Iterator
from signal import SIGKILL
from typing import NamedTuple

import pytest
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from infra.recovery.recover_stack import Recovered
from localcloud.instance import LocalCloud
from localcloud.stack import LocalStack, Run, Verb
from testkit.projects import client
from tests.stacks import editing
from tests.stacks.account import Kinds, goes_without_a_trace, kinds, kinds_undisturbed, new_stack

pytestmark = [pytest.mark.xdist_group("killed"), pytest.mark.checkpoints, pytest.mark.mission_only]

DELAY_FACTOR = 0.02
"""With this factor, creating the control plane takes ten seconds, which is enough time to kill the engine."""
LONG_DELAY_FACTOR = 0.1
"""With this factor, a cluster update takes twelve seconds, so `recover` must wait for its end."""


class Moment(NamedTuple):
    """Call after which the test kills the engine, and the only kind of AWS operation that takes time in the test."""

    call: str
    slow: str = ""
    """Kind of operation from localcloud.aws.durations. If empty, the call completes while the engine saves its
    state.
    """


MOMENTS = {
    "network": Moment("ec2.CreateVpc"),
    "gateways": Moment("ec2.CreateNatGateway", "ec2-nat-gateway"),
    "storage": Moment("efs.CreateMountTarget", "efs-mount-target"),
    "control plane": Moment("eks.CreateCluster", "eks-cluster"),
    "nodes": Moment("eks.CreateNodegroup", "eks-node-group"),
    "pods' permissions": Moment("eks.CreatePodIdentityAssociation"),
}


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    local_cloud = LocalCloud(tmp_path_factory.mktemp("killed") / "cloud")
    local_cloud.start(print)
    yield local_cloud
    local_cloud.stop()


@pytest.fixture(scope="module")
def undisturbed(cloud: LocalCloud) -> Kinds:
    return kinds_undisturbed(cloud)


@pytest.fixture
def stack(cloud: LocalCloud, undisturbed: Kinds) -> Iterator[LocalStack]:
    yield new_stack(cloud)
    cloud.control().set_delays(0)
    cloud.reset()


def kill(stack: LocalStack, verb: Verb, moment: Moment, times: int = 1, factor: float = DELAY_FACTOR) -> None:
    """Run the verb until AWS has received this call `times` times, then kill the engine with SIGKILL.

    Operations that AWS has started keep their duration.
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
    assert engine.returncode == -SIGKILL, f"the engine ended before the kill:\n{output}"


def pending(stack: LocalStack) -> list[str]:
    """Return the kinds of pending operations in the state, or in its backup if the kill truncated the state."""
    stack.mend()
    return sorted({operation["type"] for operation in stack.export()["deployment"].get("pending_operations") or ()})


def goes_up(stack: LocalStack) -> Run:
    """Run an `up` that must succeed. A second `up` must change nothing."""
    up = stack.run("up")
    assert up.ok, up.output
    again = stack.run("up")
    assert (again.ok, again.changed) == (True, {}), again.output
    return up


def recovered(stack: LocalStack) -> Recovered:
    said: list[str] = []
    return stack.recover(said.append)


@pytest.mark.parametrize("moment", ["network", pytest.param("nodes", marks=pytest.mark.mission_only)])
def test_the_next_up_completes_interrupted_creations_and_creates_nothing_twice(
    stack: LocalStack, undisturbed: Kinds, moment: str
) -> None:
    kill(stack, "up", MOMENTS[moment])
    assert pending(stack) == ["creating"], "the engine was killed during the operation"
    recovered(stack)
    assert pending(stack) == []
    up = goes_up(stack)
    assert not {"delete", "replace"} & set(up.changes), "existing resources are adopted and completed"
    assert kinds(stack.cloud) == undisturbed
    goes_without_a_trace(stack)


@pytest.mark.mission_only
@pytest.mark.parametrize("moment", ["control plane", "gateways", "storage", "pods' permissions"])
def test_a_destroy_after_a_killed_up_leaves_nothing(stack: LocalStack, moment: str) -> None:
    kill(stack, "up", MOMENTS[moment])
    recovered(stack)
    goes_without_a_trace(stack)


def test_a_killed_destroy_can_be_completed(stack: LocalStack) -> None:
    assert stack.run("up").ok
    kill(stack, "destroy", Moment("eks.DeleteNodegroup", "eks-node-group-delete"))
    assert pending(stack) == ["deleting"]
    recovered(stack)
    goes_without_a_trace(stack)


@pytest.mark.mission_only
def test_a_killed_update_can_be_completed(stack: LocalStack, undisturbed: Kinds) -> None:
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


@pytest.mark.mission_only
def test_a_killed_replacement_leaves_only_one_of_both_resources(stack: LocalStack, undisturbed: Kinds) -> None:
    assert stack.run("up").ok
    editing.write(stack, editing.with_changes(editing.read(stack), {"pools[1].instanceType": "g5.2xlarge"}))
    kill(stack, "up", MOMENTS["nodes"])
    assert "creating" in pending(stack)
    assert recovered(stack).surplus
    goes_up(stack)
    eks = client(stack.cloud, "eks")
    groups = eks.list_nodegroups(clusterName="gpumpi-faults")["nodegroups"]
    types = [eks.describe_nodegroup(clusterName="gpumpi-faults", nodegroupName=group)["nodegroup"]["tags"] for group in groups]
    assert sorted(tags["gpumpi:pool"] for tags in types) == ["spare", "system", "train"]
    assert kinds(stack.cloud)["eks", "clusters"] == undisturbed["eks", "clusters"]
    goes_without_a_trace(stack)


@pytest.mark.mission_only
def test_nodes_that_failed_meanwhile_are_replaced(stack: LocalStack, undisturbed: Kinds) -> None:
    no_capacity = {"service": "ec2", "operation": "RunInstances", "code": "InsufficientInstanceCapacity", "times": 50}
    stack.cloud.control().plan_fault(**no_capacity, match={"InstanceType": "g5.8xlarge"})
    kill(stack, "up", MOMENTS["nodes"], times=len(("system", "train", "spare")))
    recreated = recovered(stack).found
    stack.cloud.control().clear_faults()
    assert any(name.startswith("gpumpi-faults-train (") for name in recreated)
    up = goes_up(stack)
    assert up.changes["replace"] == 1
    assert kinds(stack.cloud) == undisturbed
    goes_without_a_trace(stack)


@pytest.mark.mission_only
def test_duplicates_of_an_up_without_recovery_are_deleted_after_the_next_recover(stack: LocalStack, undisturbed: Kinds) -> None:
    kill(stack, "up", MOMENTS["network"])
    stack.unlock()  # unlock only: `recover` would also settle pending operations
    assert stack.run("up").ok
    recovered(stack)
    goes_up(stack)
    assert kinds(stack.cloud) == undisturbed
    goes_without_a_trace(stack)
