"""Which component acts on a node fault, and how."""

import json
import re
from pathlib import Path

import pytest
from pydantic.alias_generators import to_camel

from infra.health import faults, xids
from infra.health.faults import AGENT_CONDITIONS, GPU_CONDITION, NOTHING, decide
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
"""Xid -> owner, the owner's action, and EKS's action without an override."""


def of_xid(number: int) -> faults.Decision:
    return decide(GPU_CONDITION, xids.name_reason(number))


@pytest.mark.parametrize("xid", ON_EKS)
def test_each_xid_has_one_owner_and_one_action(xid: int) -> None:
    decision = of_xid(xid)
    assert (decision.owner, decision.action, decision.eks) == ON_EKS[xid]


def test_the_table_covers_every_xid() -> None:
    assert set(xids.XIDS) == set(ON_EKS) - {999}
    assert {number for number, xid in xids.XIDS.items() if xid.sets_condition} == WELL_KNOWN


@pytest.mark.parametrize("xid", sorted(xids.APPLICATION))
def test_a_fault_of_the_application_costs_no_node(xid: int) -> None:
    assert of_xid(xid) == NOTHING and of_xid(xid).on_existing() == NOTHING
    # even if a later version of the agent reports this fault, as the user guide describes
    assert decide(GPU_CONDITION, f"NvidiaXID{xid}Error") == NOTHING


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
    decision = decide(GPU_CONDITION, reason)
    assert (decision.owner, decision.action) == ("nobody" if action == "none" else "controller", action)


@pytest.mark.parametrize("condition", ["Ready", *(condition for condition in AGENT_CONDITIONS if condition != GPU_CONDITION)])
def test_eks_repairs_what_has_nothing_to_do_with_gpus(condition: str) -> None:
    decision = decide(condition, "KubeletNotReady")
    assert (decision.owner, decision.action, faults.look_up_wait(condition).total_seconds()) == ("eks", "replace", 1800)


def test_pressure_on_memory_or_disks_is_no_fault() -> None:
    assert decide("MemoryPressure", "KubeletHasInsufficientMemory") == NOTHING


def test_eks_is_kept_from_what_the_controller_repairs_and_from_nothing_else() -> None:
    overrides = [{to_camel(key): value for key, value in override.items()} for override in faults.list_repair_overrides()]
    owned = {override["nodeUnhealthyReason"] for override in overrides}
    assert {(rule["nodeMonitoringCondition"], rule["repairAction"]) for rule in overrides} == {(GPU_CONDITION, "NoAction")}
    assert owned == {reason for reason in faults.list_reasons() if decide(GPU_CONDITION, reason).owner == "controller"}
    assert len(owned) == len(overrides)
    assert {f"NvidiaXID{xid}Error" for xid in WELL_KNOWN} < owned and "DCGMError" not in owned
    accepted = settings.repair_config({"enabled": True, "nodeRepairConfigOverrides": overrides})
    assert len(accepted["nodeRepairConfigOverrides"]) == len(overrides), "the local AWS accepts them"


@pytest.mark.parametrize("reason", [*faults.list_reasons(), "DCGMHealthCode38"])
def test_on_an_existing_cluster_a_node_is_cordoned_at_most(reason: str) -> None:
    decision = decide(GPU_CONDITION, reason).on_existing()
    assert decision.action in ("cordon", "none") and decision.owner != "eks"
    assert decision.costs_node == decide(GPU_CONDITION, reason).costs_node


def test_the_local_agent_reports_each_xid_with_the_reason_on_eks(tmp_path: Path) -> None:
    reported = json.loads(json.dumps(rules.configuration(tmp_path)))["rules"]
    assert len(reported) == rules.HIGHEST_XID + 1
    for xid in (*WELL_KNOWN, 13, 31, 94, 200):
        line = kernel_log.xid_line("00000000:10:00.0", xid)
        matched = [(rule["type"], rule["reason"]) for rule in reported if re.fullmatch(rule["pattern"], line)]
        kind = "permanent" if xid in WELL_KNOWN else "temporary"
        assert matched[0] == (kind, xids.name_reason(xid))
        assert [reason for _, reason in matched[1:]] == (["NvidiaDoubleBitError"] if xid == 48 else [])
