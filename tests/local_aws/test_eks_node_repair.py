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


def fault(number: int, reason: str = BUS, condition: str = GPU_CONDITION, minute: int = 0) -> Fault:
    return Fault(f"i-{number}", condition, reason, START + timedelta(minutes=minute))


def due(
    config: dict[str, Any], size: int, *node_faults: Fault, minutes: int = 10, repairing: tuple[str, ...] = ()
) -> list[tuple[str, str]]:
    decided = repair_rules.due(config, size, node_faults, repairing, START + timedelta(minutes=minutes))
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
def test_a_fault_is_repaired_after_the_wait_of_the_user_guide(reason: str, condition: str, action: str, minutes: int) -> None:
    node_fault = fault(0, reason, condition)
    assert due(ON, 3, node_fault, minutes=minutes - 1) == []
    assert due(ON, 3, node_fault, minutes=minutes) == [("i-0", action)]


def test_faults_absent_from_the_user_guide_are_not_repaired() -> None:
    assert due(ON, 3, fault(0, UNKNOWN), fault(1, "DCGMError"), minutes=1000) == []
    assert due({"enabled": False}, 3, fault(0), minutes=1000) == []


def test_an_override_changes_action_and_wait() -> None:
    override = {"nodeMonitoringCondition": GPU_CONDITION, "nodeUnhealthyReason": BUS}
    quick = {**ON, "nodeRepairConfigOverrides": [{**override, "minRepairWaitTimeMins": 2, "repairAction": "Reboot"}]}
    assert due(quick, 3, fault(0), minutes=2) == [("i-0", "Reboot")]
    left_alone = {**override, "minRepairWaitTimeMins": 5, "repairAction": "NoAction"}
    assert due({**ON, "nodeRepairConfigOverrides": [left_alone]}, 3, fault(0), minutes=1000) == []


def test_repairs_stop_above_the_threshold() -> None:
    two = (fault(0), fault(1))
    assert len(due(ON, 5, *two)) == 2, "small groups have no threshold"
    assert due(ON, 6, *two) == [] and len(due(ON, 10, *two)) == 2
    assert due({**ON, "maxUnhealthyNodeThresholdCount": 1}, 10, *two) == []
    assert due({**ON, "maxUnhealthyNodeThresholdPercentage": 10}, 5, *two) == []


def test_only_so_many_nodes_are_repaired_at_once_and_the_oldest_fault_goes_first() -> None:
    node_faults = (fault(0), fault(1, minute=-5), fault(2))
    assert due({**ON, "maxParallelNodesRepairedCount": 1}, 4, *node_faults) == [("i-1", "Replace")]
    assert due({**ON, "maxParallelNodesRepairedCount": 1}, 4, *node_faults, repairing=("i-1",)) == []
    assert len(due({**ON, "maxParallelNodesRepairedPercentage": 70}, 4, *node_faults)) == 2


@pytest.fixture
def world(aws: Client, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr(clock, "system", lambda: START)
    eks_world = World(aws)
    eks_world.cluster()
    eks_world.node_group(nodeRepairConfig=ON, scalingConfig={"minSize": 0, "maxSize": 3, "desiredSize": 2})
    yield eks_world


def breaks(instance: str, reason: str = BUS) -> None:
    repair.report(instance, [{"type": GPU_CONDITION, "status": "False", "reason": reason}])


def test_a_broken_node_is_replaced_once(world: World) -> None:
    broken, sound = sorted(world.instance_ids())
    breaks(broken)
    clock.advance(timedelta(minutes=9))
    breaks(broken, "NvidiaXID74Error")  # a second fault does not restart the wait
    assert world.instance_ids() == {broken, sound}
    clock.advance(timedelta(minutes=1))
    after = world.instance_ids()
    assert broken not in after and sound in after and len(after) == 2
    clock.advance(timedelta(hours=5))
    assert world.instance_ids() == after
    assert world.describe_group()["status"] == "ACTIVE"


def test_a_rebooted_node_stays_and_is_not_rebooted_again_while_its_condition_is_stale(world: World) -> None:
    published: list[tuple[str, str]] = []
    unregister = events.register(lambda event: published.append((event.name, event.action)) if event.kind == "instance" else None)
    broken = min(world.instance_ids())
    breaks(broken, RESET)
    clock.advance(timedelta(minutes=10))
    for _ in range(3):
        clock.advance(timedelta(minutes=10))
    unregister()
    assert published == [(broken, "draining"), (broken, "rebooting"), (broken, "uncordoning")]
    assert broken in world.instance_ids()


def test_a_condition_that_is_true_again_needs_no_repair(world: World) -> None:
    broken = min(world.instance_ids())
    breaks(broken)
    repair.report(broken, [{"type": GPU_CONDITION, "status": "True"}])
    clock.advance(timedelta(hours=1))
    assert broken in world.instance_ids()
