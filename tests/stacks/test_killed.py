"""The engine is killed during an operation on a cluster. After `recover`, the next operation continues normally."""

from collections.abc import Iterator
from signal import SIGKILL
from typing import NamedTuple

import pytest
from tenacity import Retrying, retry_if_result, stop_after_delay, wait_fixed

from infra.recovery.recover_stack import Recovered
from localcloud.instance import LocalCloud
from localcloud.stack import LocalStack, Run, Verb
from testkit.projects import create_client
from tests.stacks import editing
from tests.stacks.account import Kinds, count_leftovers, deploy_and_count, destroy_without_leftovers, prepare_stack

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
def expected_resource_counts(cloud: LocalCloud) -> Kinds:
    return deploy_and_count(cloud)


@pytest.fixture
def stack(cloud: LocalCloud, expected_resource_counts: Kinds) -> Iterator[LocalStack]:
    yield prepare_stack(cloud)
    cloud.control().set_delays(0)
    cloud.reset()


def run_and_kill(stack: LocalStack, verb: Verb, moment: Moment, times: int = 1, factor: float = DELAY_FACTOR) -> None:
    """Run the verb until AWS has received this call `times` times, then kill the engine with SIGKILL.

    Operations that AWS has started keep their duration.
    """
    control = stack.cloud.control()
    control.reset_call_counts()
    if moment.slow:
        control.set_delays(factor, moment.slow)
    waiting = Retrying(retry=retry_if_result(lambda come: not come), wait=wait_fixed(0.01), stop=stop_after_delay(120))
    with stack.start_operation(verb) as (engine, _):
        waiting(lambda: control.writes().get(moment.call, 0) >= times or engine.poll() is not None)
        engine.kill()
        assert engine.stdout is not None
        output = engine.stdout.read()
    control.set_delays(0)
    assert engine.returncode == -SIGKILL, f"the engine ended before the kill:\n{output}"


def list_pending_operations(stack: LocalStack) -> list[str]:
    """Return the kinds of pending operations in the state, or in its backup if the kill truncated the state."""
    stack.repair_state_files()
    return sorted({operation["type"] for operation in stack.export_state()["deployment"].get("pending_operations") or ()})


def expect_successful_up(stack: LocalStack) -> Run:
    """Run an `up` that must succeed. A second `up` must change nothing."""
    up = stack.run("up")
    assert up.ok, up.output
    again = stack.run("up")
    assert (again.ok, again.changed) == (True, {}), again.output
    return up


def recover_stack(stack: LocalStack) -> Recovered:
    said: list[str] = []
    return stack.recover(said.append)


@pytest.mark.parametrize("moment", ["network", pytest.param("nodes", marks=pytest.mark.mission_only)])
def test_the_next_up_completes_interrupted_creations_without_duplicates(
    stack: LocalStack, expected_resource_counts: Kinds, moment: str
) -> None:
    run_and_kill(stack, "up", MOMENTS[moment])
    assert list_pending_operations(stack) == ["creating"], "the engine was killed during the operation"
    recover_stack(stack)
    assert list_pending_operations(stack) == []
    up = expect_successful_up(stack)
    assert not {"delete", "replace"} & set(up.changes), "existing resources are adopted and completed"
    assert count_leftovers(stack.cloud) == expected_resource_counts
    destroy_without_leftovers(stack)


@pytest.mark.mission_only
@pytest.mark.parametrize("moment", ["control plane", "gateways", "storage", "pods' permissions"])
def test_a_destroy_after_a_killed_up_leaves_nothing_behind(stack: LocalStack, moment: str) -> None:
    run_and_kill(stack, "up", MOMENTS[moment])
    recover_stack(stack)
    destroy_without_leftovers(stack)


def test_a_killed_destroy_can_be_completed(stack: LocalStack) -> None:
    assert stack.run("up").ok
    run_and_kill(stack, "destroy", Moment("eks.DeleteNodegroup", "eks-node-group-delete"))
    assert list_pending_operations(stack) == ["deleting"]
    recover_stack(stack)
    destroy_without_leftovers(stack)


@pytest.mark.mission_only
def test_a_killed_update_can_be_completed(stack: LocalStack, expected_resource_counts: Kinds) -> None:
    assert stack.run("up").ok
    public = {"public": True, "publicCidrs": ["203.0.113.0/24"]}
    editing.write_settings(stack, editing.apply_changes(editing.read_settings(stack), {"target.endpointAccess": public}))
    run_and_kill(stack, "up", Moment("eks.UpdateClusterConfig", "eks-cluster-update"), factor=LONG_DELAY_FACTOR)
    assert list_pending_operations(stack) == ["updating"]
    assert recover_stack(stack).changed == ["gpumpi-faults-cluster"]
    expect_successful_up(stack)
    access = create_client(stack.cloud, "eks").describe_cluster(name="gpumpi-faults")["cluster"]["resourcesVpcConfig"]
    assert access["publicAccessCidrs"] == ["203.0.113.0/24"]
    assert set(count_leftovers(stack.cloud)) == set(expected_resource_counts)
    destroy_without_leftovers(stack)


@pytest.mark.mission_only
def test_a_killed_replacement_leaves_only_one_of_the_two_resources(stack: LocalStack, expected_resource_counts: Kinds) -> None:
    assert stack.run("up").ok
    editing.write_settings(stack, editing.apply_changes(editing.read_settings(stack), {"pools[1].instanceType": "g5.2xlarge"}))
    run_and_kill(stack, "up", MOMENTS["nodes"])
    assert "creating" in list_pending_operations(stack)
    assert recover_stack(stack).surplus
    expect_successful_up(stack)
    eks = create_client(stack.cloud, "eks")
    groups = eks.list_nodegroups(clusterName="gpumpi-faults")["nodegroups"]
    types = [eks.describe_nodegroup(clusterName="gpumpi-faults", nodegroupName=group)["nodegroup"]["tags"] for group in groups]
    assert sorted(tags["gpumpi:pool"] for tags in types) == ["spare", "system", "train"]
    assert count_leftovers(stack.cloud)["eks", "clusters"] == expected_resource_counts["eks", "clusters"]
    destroy_without_leftovers(stack)


@pytest.mark.mission_only
def test_node_groups_that_failed_after_up_was_killed_are_replaced(stack: LocalStack, expected_resource_counts: Kinds) -> None:
    no_capacity = {"service": "ec2", "operation": "RunInstances", "code": "InsufficientInstanceCapacity", "times": 50}
    stack.cloud.control().plan_fault(**no_capacity, match={"InstanceType": "g5.8xlarge"})
    run_and_kill(stack, "up", MOMENTS["nodes"], times=len(("system", "train", "spare")))
    recreated = recover_stack(stack).found
    stack.cloud.control().clear_faults()
    assert any(name.startswith("gpumpi-faults-train (") for name in recreated)
    up = expect_successful_up(stack)
    assert up.changes["replace"] == 1
    assert count_leftovers(stack.cloud) == expected_resource_counts
    destroy_without_leftovers(stack)


@pytest.mark.mission_only
def test_duplicates_from_an_up_without_recovery_are_deleted_after_the_next_recover(
    stack: LocalStack, expected_resource_counts: Kinds
) -> None:
    run_and_kill(stack, "up", MOMENTS["network"])
    stack.unlock()  # unlock only: `recover` would also settle pending operations
    assert stack.run("up").ok
    recover_stack(stack)
    expect_successful_up(stack)
    assert count_leftovers(stack.cloud) == expected_resource_counts
    destroy_without_leftovers(stack)
