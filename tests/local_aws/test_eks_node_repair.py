"""EKS node auto repair: wait times, actions, overrides and thresholds."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from infra.health.faults import GPU_CONDITION
from localcloud.aws import clock, events
from localcloud.aws.eks.node_groups import repair, repair_rules
from localcloud.aws.eks.node_groups.repair_rules import Fault
from testkit.aws_clients import Client
from testkit.eks_world import World

START = datetime(2026, 11, 23, 12, tzinfo=UTC)
BUS, RESET, UNKNOWN = "NvidiaXID79Error", "NvidiaXID95Error", "NvidiaXID62Error"
ON = {"enabled": True}


def make_fault(number: int, reason: str = BUS, condition: str = GPU_CONDITION, minute: int = 0) -> Fault:
    return Fault(f"i-{number}", condition, reason, START + timedelta(minutes=minute))


def find_due_repairs(
    config: dict[str, Any], size: int, *node_faults: Fault, minutes: int = 10, repairing: tuple[str, ...] = ()
) -> list[tuple[str, str]]:
    decided = repair_rules.list_due_repairs(config, size, node_faults, repairing, START + timedelta(minutes=minutes))
    return [(repair.instance, repair.action) for repair in decided]


@pytest.mark.parametrize(
    ("reason", "condition", "action", "minutes"),
    [
        (BUS, GPU_CONDITION, "Replace", 10),
        (RESET, GPU_CONDITION, "Reboot", 10),
        ("KernelBug", "KernelReady", "Replace", 30),
        ("KubeletNotReady", "Ready", "Replace", 30),
    ],
)
def test_a_fault_is_repaired_after_the_wait_in_the_eks_user_guide(reason: str, condition: str, action: str, minutes: int) -> None:
    node_fault = make_fault(0, reason, condition)
    assert find_due_repairs(ON, 3, node_fault, minutes=minutes - 1) == []
    assert find_due_repairs(ON, 3, node_fault, minutes=minutes) == [("i-0", action)]


def test_faults_not_listed_in_the_eks_user_guide_are_not_repaired() -> None:
    assert find_due_repairs(ON, 3, make_fault(0, UNKNOWN), make_fault(1, "DCGMError"), minutes=1000) == []
    assert find_due_repairs({"enabled": False}, 3, make_fault(0), minutes=1000) == []


def test_a_repair_override_changes_action_and_wait() -> None:
    override = {"nodeMonitoringCondition": GPU_CONDITION, "nodeUnhealthyReason": BUS}
    quick = {**ON, "nodeRepairConfigOverrides": [{**override, "minRepairWaitTimeMins": 2, "repairAction": "Reboot"}]}
    assert find_due_repairs(quick, 3, make_fault(0), minutes=2) == [("i-0", "Reboot")]
    left_alone = {**override, "minRepairWaitTimeMins": 5, "repairAction": "NoAction"}
    assert find_due_repairs({**ON, "nodeRepairConfigOverrides": [left_alone]}, 3, make_fault(0), minutes=1000) == []


def test_repairs_stop_if_too_many_nodes_are_unhealthy() -> None:
    two = (make_fault(0), make_fault(1))
    assert len(find_due_repairs(ON, 5, *two)) == 2, "small groups have no threshold"
    assert find_due_repairs(ON, 6, *two) == [] and len(find_due_repairs(ON, 10, *two)) == 2
    assert find_due_repairs({**ON, "maxUnhealthyNodeThresholdCount": 1}, 10, *two) == []
    assert find_due_repairs({**ON, "maxUnhealthyNodeThresholdPercentage": 10}, 5, *two) == []


def test_parallel_repairs_are_limited_and_the_oldest_fault_is_repaired_first() -> None:
    node_faults = (make_fault(0), make_fault(1, minute=-5), make_fault(2))
    assert find_due_repairs({**ON, "maxParallelNodesRepairedCount": 1}, 4, *node_faults) == [("i-1", "Replace")]
    assert find_due_repairs({**ON, "maxParallelNodesRepairedCount": 1}, 4, *node_faults, repairing=("i-1",)) == []
    assert len(find_due_repairs({**ON, "maxParallelNodesRepairedPercentage": 70}, 4, *node_faults)) == 2


@pytest.fixture
def world(aws: Client, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(clock, "read_system_clock", lambda: START)
    eks_world = World(aws)
    eks_world.cluster()
    eks_world.node_group(nodeRepairConfig=ON, scalingConfig={"minSize": 0, "maxSize": 3, "desiredSize": 2})
    yield eks_world


def report_gpu_fault(instance: str, reason: str = BUS) -> None:
    repair.record_conditions(instance, [{"type": GPU_CONDITION, "status": "False", "reason": reason}])


def test_a_broken_node_is_replaced_only_once(world: World) -> None:
    broken, sound = sorted(world.list_instance_ids())
    report_gpu_fault(broken)
    clock.advance(timedelta(minutes=9))
    report_gpu_fault(broken, "NvidiaXID74Error")  # a second fault does not restart the wait
    assert world.list_instance_ids() == {broken, sound}
    clock.advance(timedelta(minutes=1))
    after = world.list_instance_ids()
    assert broken not in after and sound in after and len(after) == 2
    clock.advance(timedelta(hours=5))
    assert world.list_instance_ids() == after
    assert world.describe_node_group()["status"] == "ACTIVE"


def test_a_rebooted_node_is_kept_and_not_rebooted_again_while_its_condition_is_stale(world: World) -> None:
    published: list[tuple[str, str]] = []
    unregister = events.register_realizer(
        lambda event: published.append((event.name, event.action)) if event.kind == "instance" else None
    )
    broken = min(world.list_instance_ids())
    report_gpu_fault(broken, RESET)
    clock.advance(timedelta(minutes=10))
    for _ in range(3):
        clock.advance(timedelta(minutes=10))
    unregister()
    assert published == [(broken, "draining"), (broken, "rebooting"), (broken, "uncordoning")]
    assert broken in world.list_instance_ids()


def test_a_node_that_became_healthy_again_is_not_repaired(world: World) -> None:
    broken = min(world.list_instance_ids())
    report_gpu_fault(broken)
    repair.record_conditions(broken, [{"type": GPU_CONDITION, "status": "True"}])
    clock.advance(timedelta(hours=1))
    assert broken in world.list_instance_ids()
