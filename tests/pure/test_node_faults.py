"""Which component acts on a node fault, and how."""

import json
import re
from pathlib import Path

import pytest
from pydantic.alias_generators import to_camel

from infra.health import faults, xids
from infra.health.faults import AGENT_CONDITIONS, GPU_CONDITION, NOTHING, decide_repair
from localcloud.aws.eks.node_groups import settings
from localcloud.kubernetes.node_monitoring import rules
from localcloud.kubernetes.nodes import kernel_log

WELL_KNOWN = {46, 48, 54, 62, 63, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 142, 143, 151, 155, 156, 158}
"""https://github.com/aws/eks-node-monitoring-agent/blob/51af5494/monitors/nvidia/dcgm/dcgm_policies.go"""
ON_EKS = {
    **dict.fromkeys((74, 79, 119, 120, 140), ("controller", "replace", "replace")),
    **dict.fromkeys((48, 63, 64, 95), ("controller", "reboot", "reboot")),
    **dict.fromkeys((46, 62, 109, 110, 136, 143, 155, 156, 158), ("controller", "reboot", "none")),
    **dict.fromkeys((54, 142, 151), ("controller", "replace", "none")),
    **dict.fromkeys((13, 31, 43, 45, 94, 121, 154, 999), ("nobody", "none", "none")),
}
"""Maps an Xid to its owner, the owner's action, and EKS's action without an override."""


def decide_xid(number: int) -> faults.Decision:
    return decide_repair(GPU_CONDITION, xids.format_reason(number))


@pytest.mark.parametrize("xid", ON_EKS)
def test_each_xid_has_one_owner_and_one_action(xid: int) -> None:
    decision = decide_xid(xid)
    assert (decision.owner, decision.action, decision.eks) == ON_EKS[xid]


def test_xid_table_covers_every_xid() -> None:
    assert set(xids.XIDS) == set(ON_EKS) - {999}
    assert {number for number, xid in xids.XIDS.items() if xid.sets_condition} == WELL_KNOWN


@pytest.mark.parametrize("xid", sorted(xids.APPLICATION))
def test_application_fault_takes_no_node_out_of_service(xid: int) -> None:
    assert decide_xid(xid) == NOTHING and decide_xid(xid).for_existing_cluster() == NOTHING
    # even if a later version of the agent reports this fault, as the user guide describes
    assert decide_repair(GPU_CONDITION, f"NvidiaXID{xid}Error") == NOTHING


@pytest.mark.parametrize(
    ("reason", "action"),
    [
        ("NvidiaDoubleBitError", "replace"),
        ("NvidiaNVLinkError", "replace"),
        ("NvidiaDeviceCountMismatch", "replace"),
        ("FabricManagerNotRunning", "reboot"),
        ("DCGMDiagnosticFailure", "cordon"),
        ("DCGMHealthCode38", "cordon"),
        ("DCGMError", "none"),
        ("AReasonOfTheNextRelease", "cordon"),
    ],
)
def test_each_reason_of_the_gpu_condition_has_one_action(reason: str, action: str) -> None:
    decision = decide_repair(GPU_CONDITION, reason)
    assert (decision.owner, decision.action) == ("nobody" if action == "none" else "controller", action)


@pytest.mark.parametrize("condition", ["Ready", *(condition for condition in AGENT_CONDITIONS if condition != GPU_CONDITION)])
def test_eks_repairs_faults_unrelated_to_gpus(condition: str) -> None:
    decision = decide_repair(condition, "KubeletNotReady")
    assert (decision.owner, decision.action, faults.find_repair_wait(condition).total_seconds()) == ("eks", "replace", 1800)


def test_memory_or_disk_pressure_is_not_a_fault() -> None:
    assert decide_repair("MemoryPressure", "KubeletHasInsufficientMemory") == NOTHING


def test_eks_repair_is_disabled_only_for_faults_repaired_by_the_controller() -> None:
    overrides = [{to_camel(key): value for key, value in override.items()} for override in faults.list_repair_overrides()]
    owned = {override["nodeUnhealthyReason"] for override in overrides}
    assert {(rule["nodeMonitoringCondition"], rule["repairAction"]) for rule in overrides} == {(GPU_CONDITION, "NoAction")}
    assert owned == {
        reason for reason in faults.list_known_reasons() if decide_repair(GPU_CONDITION, reason).owner == "controller"
    }
    assert len(owned) == len(overrides)
    assert {f"NvidiaXID{xid}Error" for xid in WELL_KNOWN} < owned and "DCGMError" not in owned
    accepted = settings.check_repair_config({"enabled": True, "nodeRepairConfigOverrides": overrides})
    assert len(accepted["nodeRepairConfigOverrides"]) == len(overrides), "the local AWS accepts them"


@pytest.mark.parametrize("reason", [*faults.list_known_reasons(), "DCGMHealthCode38"])
def test_existing_cluster_nodes_are_at_most_cordoned(reason: str) -> None:
    decision = decide_repair(GPU_CONDITION, reason).for_existing_cluster()
    assert decision.action in ("cordon", "none") and decision.owner != "eks"
    assert decision.takes_node_out == decide_repair(GPU_CONDITION, reason).takes_node_out


def test_local_agent_reports_each_xid_with_the_same_reason_as_eks(tmp_path: Path) -> None:
    reported = json.loads(json.dumps(rules.build_configuration(tmp_path)))["rules"]
    assert len(reported) == rules.HIGHEST_XID + 1
    for xid in (*WELL_KNOWN, 13, 31, 94, 200):
        line = kernel_log.format_xid_line("00000000:10:00.0", xid)
        matched = [(rule["type"], rule["reason"]) for rule in reported if re.fullmatch(rule["pattern"], line)]
        kind = "permanent" if xid in WELL_KNOWN else "temporary"
        assert matched[0] == (kind, xids.format_reason(xid))
        assert [reason for _, reason in matched[1:]] == (["NvidiaDoubleBitError"] if xid == 48 else [])
