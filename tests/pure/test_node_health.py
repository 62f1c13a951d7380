"""`health`: its report for given nodes, events and job records."""

import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console, RenderableType
from typer.testing import CliRunner

from cli import main
from cli.clusters import stack_cluster
from cli.errors import CommandError, Forbidden
from cli.exit_codes import UNREACHABLE
from cli.jobs.records import JobRecord
from cli.nodes.health import findings, health_screen, scheduled
from cli.nodes.health.findings import NODE_GROUP_LABEL
from cli.nodes.health.node_health import NodeHealth
from infra.health import journal
from infra.health.annotation import TakenOut
from infra.health.faults import GPU_CONDITION
from infra.naming import EMULATED_LABEL, TAKEN_OUT_ANNOTATION

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
ON_EKS = {NODE_GROUP_LABEL: "train"}
OFF_THE_BUS = "NVRM: Xid (PCI:0000:10:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus"
KUBELET_SILENT = "Kubelet stopped posting node status."


def time_ago(minutes: float) -> str:
    """Return a time this many minutes ago."""
    return (NOW - timedelta(minutes=minutes)).isoformat().replace("+00:00", "Z")


def make_condition(kind: str, status: str, reason: str, minutes: float = 3, message: str = "") -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": time_ago(minutes)}


READY = make_condition("Ready", "True", "KubeletReady", 60)
BUS = make_condition(GPU_CONDITION, "False", "NvidiaXID79Error", 3, OFF_THE_BUS)
UNKNOWN = make_condition("Ready", "Unknown", "NodeStatusUnknown", 40, KUBELET_SILENT)


def make_node(
    name: str, *conditions: dict[str, Any], labels: dict[str, str] | None = None, usable: int = 8, cordoned: bool = False
) -> dict[str, Any]:
    about = {
        "gpumpi.io/pool": "train",
        "node.kubernetes.io/instance-type": "p5.48xlarge",
        **(ON_EKS if labels is None else labels),
    }
    return {
        "metadata": {"name": name, "labels": about, "creationTimestamp": time_ago(61)},
        "spec": {"providerID": f"aws:///us-west-2a/i-{name}", **({"unschedulable": True} if cordoned else {})},
        "status": {
            "conditions": [*(conditions or (READY,))],
            "capacity": {"nvidia.com/gpu": "8"},
            "allocatable": {"nvidia.com/gpu": str(usable)},
        },
    }


def make_event(
    name: str, message: str, *, minutes: float = 5, reason: str = GPU_CONDITION, kind: str = "Warning"
) -> dict[str, Any]:
    about = {"kind": "Node", "name": name}
    return {
        "involvedObject": about,
        "type": kind,
        "reason": reason,
        "message": message,
        "lastTimestamp": time_ago(minutes),
        "metadata": {},
    }


def make_record(name: str, node: str, *, since: float = 50, until: float | None = None, attempts: Any = ()) -> JobRecord:
    worker = {
        "pod": f"{name}-worker-0",
        "node": node,
        "from": time_ago(since),
        "to": None if until is None else time_ago(until),
        "gpus": 8,
    }
    return JobRecord(f"{name}-record", {"namespace": "ml", "name": name, "workers": [worker], "attempts": list(attempts)})


def judge_health(manifest: dict[str, Any], *events: dict[str, Any], records: Any = ()) -> NodeHealth:
    return findings.assess_node_health(manifest, events, records, NOW)


def test_node_without_faults_is_healthy_and_needs_no_action() -> None:
    verdict = judge_health(make_node("a", READY, make_condition(GPU_CONDITION, "True", "NvidiaGPUIsReady")))
    assert (verdict.state, verdict.faults, verdict.next, verdict.has_nothing_to_report) == ("healthy", (), "", True)
    assert (verdict.pool, verdict.instance, verdict.gpus) == ("train", "i-a", (8, 8))


@pytest.mark.parametrize(
    ("minutes", "following"),
    [
        (3, "EKS replaces it at 12:07 UTC, 10 min after the fault"),
        (11, "EKS replaces it (due since 11:59 UTC); EKS repairs one node at a time"),
    ],
)
def test_eks_repairs_a_gpu_ten_minutes_after_the_fault(minutes: float, following: str) -> None:
    verdict = judge_health(make_node("a", READY, {**BUS, "lastTransitionTime": time_ago(minutes)}, usable=7))
    assert (verdict.state, verdict.next, verdict.gpus) == ("broken", following, (7, 8))
    assert [fault.reason for fault in verdict.faults] == ["NvidiaXID79Error", "DevicePluginWithdrewGpus"]


def test_node_that_reports_nothing_is_not_ready_and_eks_repairs_the_node_after_30_minutes() -> None:
    verdict = judge_health(make_node("a", UNKNOWN, BUS))
    assert (verdict.state, verdict.faults[0].message) == ("not ready", KUBELET_SILENT)
    assert verdict.next == "EKS replaces it (due since 11:50 UTC); EKS repairs one node at a time"


def test_fault_that_eks_does_not_repair_shows_the_repair_commands() -> None:
    by_eks = judge_health(make_node("a", READY, make_condition(GPU_CONDITION, "False", "DCGMDiagnosticFailure")))
    drain = "`kubectl drain a --ignore-daemonsets --delete-emptydir-data`"
    assert by_eks.next == f"nothing repairs it: {drain}, then terminate i-a"
    on_premises = make_node("a", READY, BUS, labels={})
    on_premises["spec"] = {}
    assert judge_health(on_premises).next == f"nothing repairs it: {drain}, then repair or replace it"


def test_local_cloud_schedules_repairs_by_its_simulated_clock() -> None:
    verdict = judge_health(make_node("a", READY, BUS, labels={**ON_EKS, EMULATED_LABEL: "true"}))
    assert verdict.next == "EKS replaces it 10 min after the fault, or after `local clock --advance 10m`"


def test_monitoring_failure_is_not_a_gpu_fault() -> None:
    verdict = judge_health(make_node("a", READY, make_condition(GPU_CONDITION, "False", "DCGMError")))
    assert verdict.next == "see the log of the node monitoring agent: this does not mean that a GPU is broken"


def test_withdrawn_gpu_is_a_fault_even_without_a_condition() -> None:
    verdict = judge_health(make_node("a", usable=7))
    assert (verdict.state, verdict.faults[0].message) == ("broken", "7 of 8 GPUs can be used")


def test_cordoned_node_shows_the_uncordon_command() -> None:
    assert judge_health(make_node("a", cordoned=True)).next == "accepts jobs again after `kubectl uncordon a`"
    assert judge_health(make_node("a", READY, BUS, cordoned=True)).state_text == "broken, cordoned"


def test_application_error_is_shown_but_leaves_the_node_healthy() -> None:
    events = [make_event("a", "NvidiaXID31Warning: NVRM: 31"), make_event("a", "NvidiaXID13Warning: 13", minutes=9)]
    verdict = judge_health(
        make_node("a"), *events, make_event("b", "NvidiaXID31Warning: other"), make_event("a", "x", reason="Rebooted")
    )
    assert (verdict.state, verdict.has_nothing_to_report, verdict.next) == (
        "healthy",
        False,
        "the node is fine: the application caused it",
    )
    assert [(warning.reason, warning.message) for warning in verdict.warnings] == [
        ("NvidiaXID31Warning", "NVRM: 31"),
        ("NvidiaXID13Warning", "13"),
    ]


def test_jobs_on_a_node_are_those_with_a_running_worker_there() -> None:
    records = [make_record("train", "a"), make_record("old", "a", until=20), make_record("other", "b")]
    assert judge_health(make_node("a"), records=records).jobs == ("ml/train",)


def test_history_shows_conditions_events_and_jobs_in_chronological_order() -> None:
    attempts = [
        {"number": 1, "to": time_ago(2), "outcome": "Disrupted", "cause": "train-worker-0: its node a is not ready"},
        {"number": 2, "to": time_ago(90), "outcome": "Failed", "cause": "long before"},
        {"number": 3, "to": None, "outcome": None, "cause": ""},
    ]
    agents = make_condition(GPU_CONDITION, "True", "NvidiaGPUIsReady", 59)
    twice = {**make_event("a", "NvidiaXID31Warning:\n 31", minutes=4), "count": 2}
    jobs = [make_record("train", "a", until=2.5, attempts=attempts), make_record("other", "b")]
    rows = findings.list_history(
        "a", make_node("a", READY, BUS, {**agents, "type": "KernelReady"}), [twice, make_event("b", "no")], jobs
    )
    assert [(moment.source, moment.text) for moment in rows] == [
        ("node", "joined the cluster"),
        ("condition", "Ready is True: KubeletReady"),
        ("job", "ml/train: train-worker-0 starts"),
        ("event", "AcceleratedHardwareReady: NvidiaXID31Warning: 31 (2 times)"),
        ("condition", f"AcceleratedHardwareReady is False: NvidiaXID79Error: {OFF_THE_BUS}"),
        ("job", "ml/train: train-worker-0 ends"),
        ("job", "ml/train: attempt 1 disrupted: train-worker-0: its node a is not ready"),
    ]


# --- the screen ---------------------------------------------------------------------------------------------------------


def render_lines(shown: RenderableType, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, highlight=False, markup=False, soft_wrap=True)
    with console.capture() as capture:
        console.print(shown)
    return [line.rstrip() for line in capture.get().splitlines()]


@pytest.fixture
def judged_nodes() -> list[NodeHealth]:
    jobs = [make_record("train", "ip-10-0-1-7.us-west-2.compute.internal")]
    return [
        judge_health(make_node("ip-10-0-1-7.us-west-2.compute.internal", READY, BUS), records=jobs),
        judge_health(make_node("ip-10-0-1-8.us-west-2.compute.internal", UNKNOWN)),
        judge_health(make_node("ip-10-0-1-9.us-west-2.compute.internal")),
    ]


@pytest.mark.parametrize("width", [60, 100, 200])
def test_overview_shows_all_data_at_each_terminal_width(judged_nodes: list[NodeHealth], width: int) -> None:
    printed = render_lines(health_screen.render_overview(judged_nodes, ["jobs: you may not list them"], NOW), width)
    text = " ".join(" ".join(printed).split())
    assert "1 of 3 nodes healthy" in text and "unknown: jobs: you may not list them" in text
    assert "ip-10-0-1-9" not in text
    if width < 200:
        assert printed[0].startswith("node: ip-10-0-1-7") and "next: EKS replaces it at 12:07 UTC, 10 min after the fault" in text
    words = ("broken", "3m0s ago", "NvidiaXID79Error", "not", "40m0s ago", "NodeStatusUnknown", "12:07 UTC", "ml/train")
    assert all(word in text for word in words)
    assert sum(node.name in line for node in judged_nodes[:2] for line in printed) == 2, "names are not wrapped"


def test_a_wide_overview_has_one_line_per_node(judged_nodes: list[NodeHealth]) -> None:
    printed = render_lines(health_screen.render_overview(judged_nodes, [], NOW), 400)
    assert [line.split()[0] for line in printed if line][:3] == ["node", *(node.name for node in judged_nodes[:2])]


def test_a_healthy_cluster_is_one_line(judged_nodes: list[NodeHealth]) -> None:
    assert render_lines(health_screen.render_overview(judged_nodes[2:], [], NOW), 100) == ["1 of 1 node healthy"]


# --- the verb -----------------------------------------------------------------------------------------------------------


class Cluster:
    def __init__(self) -> None:
        self.nodes = [make_node("a", READY, BUS), make_node("b")]
        self.forbidden: set[str] = set()

    def list(self, kind: str, namespace: str | None = None, **_: Any) -> Any:
        if kind in self.forbidden:
            raise Forbidden(f"may not list {kind}s", UNREACHABLE)
        return (
            self.nodes
            if kind == "Node"
            else [make_event("b", "NvidiaXID31Warning: 31"), make_event("gone", "NvidiaXID31Warning: 31")]
        )

    def list_labeled(self, kind: str, label: str, namespace: str | None) -> Any:
        return self.list(kind) if kind in self.forbidden else []

    def find(self, kind: str, name: str, namespace: str | None = None) -> Any:
        return self.list(kind) if kind in self.forbidden else None


@pytest.fixture
def connected_cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    fake = Cluster()
    monkeypatch.setattr(stack_cluster, "connect_to_stack", lambda *_: fake)
    return fake


def run_health(*arguments: str) -> Any:
    return CliRunner().invoke(main.app, ["health", *arguments])


def test_json_output_has_every_node_with_its_state(connected_cluster: Cluster) -> None:
    report = json.loads(run_health("--json").stdout)
    assert [(node["name"], node["state"]) for node in report["nodes"]] == [("a", "broken"), ("b", "healthy")]
    assert report["nodes"][0]["faults"][0]["reason"] == "NvidiaXID79Error" and report["unknown"] == []


def test_node_is_found_by_its_instance_id(connected_cluster: Cluster) -> None:
    report = json.loads(run_health("i-b", "--json").stdout)
    assert (report["name"], report["warnings"][0]["reason"]) == ("b", "NvidiaXID31Warning")
    assert [entry["source"] for entry in report["history"]] == ["node", "condition", "event"]
    printed = run_health("a").stdout
    assert printed.startswith("a  broken  pool train  p5.48xlarge  i-a  8 of 8 GPUs usable\n")
    assert "AcceleratedHardwareReady is False: NvidiaXID79Error" in printed


def test_deleted_node_still_has_a_history_and_unknown_node_is_an_error(connected_cluster: Cluster) -> None:
    assert json.loads(run_health("gone", "--json").stdout)["state"] == "gone"
    done = run_health("other")
    assert (done.exit_code, done.stderr) == (4, "cluster health: other: no such node. Choose one of: a, b\n")


def test_nodes_are_shown_without_permission_for_events_and_jobs(connected_cluster: Cluster) -> None:
    connected_cluster.forbidden = {"Event", "ConfigMap"}
    report = json.loads(run_health("--json").stdout)
    assert [node["state"] for node in report["nodes"]] == ["broken", "healthy"]
    assert report["unknown"] == [
        "events of nodes: may not list Events",
        "jobs: may not list ConfigMaps",
        "journal of nodes: may not list ConfigMaps",
    ]


def test_an_ec2_cluster_has_no_kubernetes_nodes(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.bare.yaml").write_text("config:\n  aws:region: us-west-2\n  gpumpi:target: {kind: ec2}\n")
    done = run_health("-s", "bare", "--config-dir", str(tmp_path))
    assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1)
    assert "bare is an EC2 cluster, without Kubernetes" in done.stderr


def test_a_kubeconfig_of_another_cluster_is_refused() -> None:
    with pytest.raises(CommandError, match="the kubeconfig belongs to cluster other, not to gpumpi-mine"):
        stack_cluster.check_cluster_name("other", "gpumpi-mine")


# --- actions of the job controller


def make_cordoned_node(
    state: str, *, cordoned: bool = True, drains: bool = True, silent: bool = False, **more: Any
) -> dict[str, Any]:
    kind, reason, action = ("Ready", "KubeletSilent", "cordon") if silent else (GPU_CONDITION, BUS["reason"], "replace")
    out = TakenOut(NOW - timedelta(minutes=3), kind, reason, action, state, NOW, drains)  # type: ignore[arg-type]
    manifest = make_node("a", READY, *([] if silent else [BUS]), cordoned=cordoned, **more)
    manifest["metadata"] |= {"annotations": {TAKEN_OUT_ANNOTATION: out.text()}, "uid": "uid-a"}
    return manifest


@pytest.mark.parametrize(
    ("raw", "following"),
    [
        (make_cordoned_node("draining"), "its jobs restart on other nodes"),
        (make_cordoned_node("draining", drains=False), "its jobs stay until they end; then repair it"),
        (make_cordoned_node("draining", cordoned=False), "it was uncordoned manually, so it keeps its jobs"),
        (
            make_cordoned_node("repairing"),
            "the autoscaler removes it (pools with `minSize: 0`), or EKS repairs it 10 min after the fault",
        ),
        (
            make_cordoned_node("repairing", labels={}),
            "repair it, then restart the program that reports its conditions: the node accepts jobs again once the fault is gone",
        ),
        (make_cordoned_node("verifying"), "accepts jobs again at 12:00:30 UTC if no new fault occurs until then"),
        (make_cordoned_node("draining", silent=True), "its jobs restart on other nodes"),
        (
            make_cordoned_node("draining", silent=True, drains=False),
            "its jobs restart on other nodes once Kubernetes reports the node as not ready, about 50 s after the fault",
        ),
        (
            make_cordoned_node("repairing", silent=True),
            "it accepts jobs again after its kubelet has returned; otherwise EKS replaces it 30 min after the fault",
        ),
        (make_cordoned_node("repairing", silent=True, labels={}), "it accepts jobs again after its kubelet has returned"),
    ],
)
def test_node_taken_out_of_service_shows_its_state_and_next_action(raw: dict[str, Any], following: str) -> None:
    verdict = judge_health(raw)
    assert (verdict.state, verdict.next) == (json.loads(raw["metadata"]["annotations"][TAKEN_OUT_ANNOTATION])["state"], following)
    assert verdict.as_json()["takenOut"] == json.loads(raw["metadata"]["annotations"][TAKEN_OUT_ANNOTATION])


def test_history_includes_controller_actions_even_for_deleted_nodes() -> None:
    manifest, entries = make_cordoned_node("draining"), journal.create_journal()
    entries = journal.update_journal(entries, [manifest], ["uid-a"], NOW)
    entries = journal.update_journal(entries, [], [], NOW + timedelta(minutes=9))
    texts = [moment.text for moment in findings.list_history("a", None, (), (), entries)]
    assert texts == ["taken out of service: NvidiaXID79Error, needs a replacement", "the node is gone"]
    assert (
        findings.assess_deleted_node("i-a", (), (), entries) is not None
        and findings.assess_deleted_node("b", (), (), entries) is None
    )


def test_history_shows_why_a_silent_node_was_taken_out_of_service() -> None:
    entries = journal.update_journal(journal.create_journal(), [make_cordoned_node("draining", silent=True)], ["uid-a"], NOW)
    (moment,) = findings.list_history("a", None, (), (), entries)
    assert (
        moment.text == "taken out of service: KubeletSilent: the kubelet had stopped renewing its lease and could not be reached"
    )


def test_node_kept_in_service_by_the_cordon_limit_is_reported_as_held() -> None:
    broken = make_node("a", READY, BUS)
    judged = findings.assess_node_health(broken, (), (), NOW, {**journal.create_journal(), "held": ["a"]})
    assert "20% of the nodes broke within 60 minutes" in judged.next
    soon = findings.assess_node_health(broken, (), (), NOW, journal.create_journal())
    assert soon.next == "the job controller takes it out of service"


def make_retirement_event(code: str = "instance-retirement") -> dict[str, Any]:
    return {"Code": code, "Description": "The instance is running on degraded hardware", "NotBefore": NOW + timedelta(days=14)}


def test_node_with_scheduled_ec2_retirement_has_a_warning_with_date_and_fix() -> None:
    retired, other = scheduled.add_event_warnings(
        [findings.assess_node_health(make_node(name), [], [], NOW) for name in ("n1", "n2")],
        {"i-n1": make_retirement_event(), "i-gone": make_retirement_event()},
    )
    assert (retired.state, retired.has_nothing_to_report, other.has_nothing_to_report) == ("healthy", False, True)
    assert retired.problem_text == (
        "instance-retirement: EC2 ends the instance at 2026-12-07 12:00 UTC: The instance is running on degraded hardware"
    )
    assert retired.next.startswith("before that, `kubectl drain n1 ") and retired.next.endswith("Auto Scaling replaces it")
    broken = findings.assess_node_health(make_node("n1", BUS), [], [], NOW)
    assert scheduled.add_event_warnings([broken], {"i-n1": make_retirement_event()})[0].next == broken.next, (
        "the fault is more urgent"
    )


def test_completed_ec2_events_are_ignored_and_the_next_event_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    done = {**make_retirement_event("system-reboot"), "Description": "[Completed] scheduled reboot", "NotBefore": NOW}
    later = {**make_retirement_event("instance-stop"), "NotBefore": NOW + timedelta(days=20)}
    pages = [{"InstanceStatuses": [{"InstanceId": "i-n1", "Events": [later, done, make_retirement_event()]}]}]
    pages += [{"InstanceStatuses": [{"InstanceId": "i-n2", "Events": [done]}]}]
    paginator = SimpleNamespace(paginate=lambda **options: pages)
    events = scheduled.find_next_events(SimpleNamespace(ec2=SimpleNamespace(get_paginator=lambda name: paginator)))  # type: ignore[arg-type]
    assert {name: event["Code"] for name, event in events.items()} == {"i-n1": "instance-retirement"}
