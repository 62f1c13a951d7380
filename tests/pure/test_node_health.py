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


def at(minutes: float) -> str:
    """Return a time this many minutes ago."""
    return (NOW - timedelta(minutes=minutes)).isoformat().replace("+00:00", "Z")


def condition(kind: str, status: str, reason: str, minutes: float = 3, message: str = "") -> dict[str, Any]:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": at(minutes)}


READY = condition("Ready", "True", "KubeletReady", 60)
BUS = condition(GPU_CONDITION, "False", "NvidiaXID79Error", 3, OFF_THE_BUS)
UNKNOWN = condition("Ready", "Unknown", "NodeStatusUnknown", 40, KUBELET_SILENT)


def node(
    name: str, *conditions: dict[str, Any], labels: dict[str, str] | None = None, usable: int = 8, cordoned: bool = False
) -> dict[str, Any]:
    about = {
        "gpumpi.io/pool": "train",
        "node.kubernetes.io/instance-type": "p5.48xlarge",
        **(ON_EKS if labels is None else labels),
    }
    return {
        "metadata": {"name": name, "labels": about, "creationTimestamp": at(61)},
        "spec": {"providerID": f"aws:///us-west-2a/i-{name}", **({"unschedulable": True} if cordoned else {})},
        "status": {
            "conditions": [*(conditions or (READY,))],
            "capacity": {"nvidia.com/gpu": "8"},
            "allocatable": {"nvidia.com/gpu": str(usable)},
        },
    }


def event(name: str, message: str, *, minutes: float = 5, reason: str = GPU_CONDITION, kind: str = "Warning") -> dict[str, Any]:
    about = {"kind": "Node", "name": name}
    return {
        "involvedObject": about,
        "type": kind,
        "reason": reason,
        "message": message,
        "lastTimestamp": at(minutes),
        "metadata": {},
    }


def record(name: str, node: str, *, since: float = 50, until: float | None = None, attempts: Any = ()) -> JobRecord:
    worker = {"pod": f"{name}-worker-0", "node": node, "from": at(since), "to": None if until is None else at(until), "gpus": 8}
    return JobRecord(f"{name}-record", {"namespace": "ml", "name": name, "workers": [worker], "attempts": list(attempts)})


def health(manifest: dict[str, Any], *events: dict[str, Any], records: Any = ()) -> NodeHealth:
    return findings.judge_node(manifest, events, records, NOW)


def test_a_node_without_faults_is_healthy_and_needs_nothing() -> None:
    verdict = health(node("a", READY, condition(GPU_CONDITION, "True", "NvidiaGPUIsReady")))
    assert (verdict.state, verdict.faults, verdict.next, verdict.is_quiet) == ("healthy", (), "", True)
    assert (verdict.pool, verdict.instance, verdict.gpus) == ("train", "i-a", (8, 8))


@pytest.mark.parametrize(
    ("minutes", "following"),
    [
        (3, "EKS replaces it at 12:07 UTC, 10 min after the fault"),
        (11, "EKS replaces it (due since 11:59 UTC); EKS repairs one node at a time"),
    ],
)
def test_eks_repairs_a_gpu_ten_minutes_after_the_fault(minutes: float, following: str) -> None:
    verdict = health(node("a", READY, {**BUS, "lastTransitionTime": at(minutes)}, usable=7))
    assert (verdict.state, verdict.next, verdict.gpus) == ("broken", following, (7, 8))
    assert [fault.reason for fault in verdict.faults] == ["NvidiaXID79Error", "DevicePluginWithdrewGpus"]


def test_a_node_that_reports_nothing_is_not_ready_and_eks_repairs_it_after_30_minutes() -> None:
    verdict = health(node("a", UNKNOWN, BUS))
    assert (verdict.state, verdict.faults[0].message) == ("not ready", KUBELET_SILENT)
    assert verdict.next == "EKS replaces it (due since 11:50 UTC); EKS repairs one node at a time"


def test_what_eks_does_not_repair_names_the_commands() -> None:
    by_eks = health(node("a", READY, condition(GPU_CONDITION, "False", "DCGMDiagnosticFailure")))
    drain = "`kubectl drain a --ignore-daemonsets --delete-emptydir-data`"
    assert by_eks.next == f"nothing repairs it: {drain}, then terminate i-a"
    on_premises = node("a", READY, BUS, labels={})
    on_premises["spec"] = {}
    assert health(on_premises).next == f"nothing repairs it: {drain}, then repair or replace it"


def test_the_local_cloud_repairs_by_its_calendar() -> None:
    verdict = health(node("a", READY, BUS, labels={**ON_EKS, EMULATED_LABEL: "true"}))
    assert verdict.next == "EKS replaces it 10 min after the fault, or after `local clock --advance 10m`"


def test_a_failure_of_the_monitoring_is_no_fault_of_a_gpu() -> None:
    verdict = health(node("a", READY, condition(GPU_CONDITION, "False", "DCGMError")))
    assert verdict.next == "see the log of the node monitoring agent: this does not mean that a GPU is broken"


def test_a_withdrawn_gpu_is_a_fault_also_without_a_condition() -> None:
    verdict = health(node("a", usable=7))
    assert (verdict.state, verdict.faults[0].message) == ("broken", "7 of 8 GPUs can be used")


def test_a_cordoned_node_says_how_it_takes_jobs_again() -> None:
    assert health(node("a", cordoned=True)).next == "accepts jobs again after `kubectl uncordon a`"
    assert health(node("a", READY, BUS, cordoned=True)).words == "broken, cordoned"


def test_an_application_error_leaves_the_node_healthy_and_is_shown() -> None:
    events = [event("a", "NvidiaXID31Warning: NVRM: 31"), event("a", "NvidiaXID13Warning: 13", minutes=9)]
    verdict = health(node("a"), *events, event("b", "NvidiaXID31Warning: other"), event("a", "x", reason="Rebooted"))
    assert (verdict.state, verdict.is_quiet, verdict.next) == ("healthy", False, "the node is fine: the application caused it")
    assert [(warning.reason, warning.message) for warning in verdict.warnings] == [
        ("NvidiaXID31Warning", "NVRM: 31"),
        ("NvidiaXID13Warning", "13"),
    ]


def test_jobs_on_a_node_are_those_with_a_worker_there_now() -> None:
    records = [record("train", "a"), record("old", "a", until=20), record("other", "b")]
    assert health(node("a"), records=records).jobs == ("ml/train",)


def test_the_history_has_conditions_events_and_jobs_in_their_order() -> None:
    attempts = [
        {"number": 1, "to": at(2), "outcome": "Disrupted", "cause": "train-worker-0: its node a is not ready"},
        {"number": 2, "to": at(90), "outcome": "Failed", "cause": "long before"},
        {"number": 3, "to": None, "outcome": None, "cause": ""},
    ]
    agents = condition(GPU_CONDITION, "True", "NvidiaGPUIsReady", 59)
    twice = {**event("a", "NvidiaXID31Warning:\n 31", minutes=4), "count": 2}
    jobs = [record("train", "a", until=2.5, attempts=attempts), record("other", "b")]
    rows = findings.list_moments("a", node("a", READY, BUS, {**agents, "type": "KernelReady"}), [twice, event("b", "no")], jobs)
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


def lines(shown: RenderableType, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, highlight=False, markup=False, soft_wrap=True)
    with console.capture() as capture:
        console.print(shown)
    return [line.rstrip() for line in capture.get().splitlines()]


@pytest.fixture
def cluster() -> list[NodeHealth]:
    jobs = [record("train", "ip-10-0-1-7.us-west-2.compute.internal")]
    return [
        health(node("ip-10-0-1-7.us-west-2.compute.internal", READY, BUS), records=jobs),
        health(node("ip-10-0-1-8.us-west-2.compute.internal", UNKNOWN)),
        health(node("ip-10-0-1-9.us-west-2.compute.internal")),
    ]


@pytest.mark.parametrize("width", [60, 100, 200])
def test_the_overview_shows_everything_at_each_width(cluster: list[NodeHealth], width: int) -> None:
    printed = lines(health_screen.overview(cluster, ["jobs: you may not list them"], NOW), width)
    text = " ".join(" ".join(printed).split())
    assert "1 of 3 nodes healthy" in text and "unknown: jobs: you may not list them" in text
    assert "ip-10-0-1-9" not in text
    if width < 200:
        assert printed[0].startswith("node: ip-10-0-1-7") and "next: EKS replaces it at 12:07 UTC, 10 min after the fault" in text
    words = ("broken", "3m0s ago", "NvidiaXID79Error", "not", "40m0s ago", "NodeStatusUnknown", "12:07 UTC", "ml/train")
    assert all(word in text for word in words)
    assert sum(node.name in line for node in cluster[:2] for line in printed) == 2, "names are not wrapped"


def test_a_wide_overview_has_one_line_per_node(cluster: list[NodeHealth]) -> None:
    printed = lines(health_screen.overview(cluster, [], NOW), 400)
    assert [line.split()[0] for line in printed if line][:3] == ["node", *(node.name for node in cluster[:2])]


def test_a_healthy_cluster_is_one_line(cluster: list[NodeHealth]) -> None:
    assert lines(health_screen.overview(cluster[2:], [], NOW), 100) == ["1 of 1 node healthy"]


# --- the verb -----------------------------------------------------------------------------------------------------------


class Cluster:
    def __init__(self) -> None:
        self.nodes = [node("a", READY, BUS), node("b")]
        self.forbidden: set[str] = set()

    def list(self, kind: str, namespace: str | None = None, **_: Any) -> Any:
        if kind in self.forbidden:
            raise Forbidden(f"may not list {kind}s", UNREACHABLE)
        return self.nodes if kind == "Node" else [event("b", "NvidiaXID31Warning: 31"), event("gone", "NvidiaXID31Warning: 31")]

    def list_labeled(self, kind: str, label: str, namespace: str | None) -> Any:
        return self.list(kind) if kind in self.forbidden else []

    def find(self, kind: str, name: str, namespace: str | None = None) -> Any:
        return self.list(kind) if kind in self.forbidden else None


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    fake = Cluster()
    monkeypatch.setattr(stack_cluster, "connect", lambda *_: fake)
    return fake


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main.app, ["health", *arguments])


def test_json_has_every_node_with_its_state(connected: Cluster) -> None:
    report = json.loads(run("--json").stdout)
    assert [(node["name"], node["state"]) for node in report["nodes"]] == [("a", "broken"), ("b", "healthy")]
    assert report["nodes"][0]["faults"][0]["reason"] == "NvidiaXID79Error" and report["unknown"] == []


def test_a_node_is_found_by_its_instance(connected: Cluster) -> None:
    report = json.loads(run("i-b", "--json").stdout)
    assert (report["name"], report["warnings"][0]["reason"]) == ("b", "NvidiaXID31Warning")
    assert [entry["source"] for entry in report["history"]] == ["node", "condition", "event"]
    printed = run("a").stdout
    assert printed.startswith("a  broken  pool train  p5.48xlarge  i-a  8 of 8 GPUs usable\n")
    assert "AcceleratedHardwareReady is False: NvidiaXID79Error" in printed


def test_a_node_that_is_gone_still_has_a_history_and_an_unknown_one_is_an_error(connected: Cluster) -> None:
    assert json.loads(run("gone", "--json").stdout)["state"] == "gone"
    done = run("other")
    assert (done.exit_code, done.stderr) == (4, "cluster health: other: no such node. Choose one of: a, b\n")


def test_without_permission_for_events_and_jobs_the_nodes_are_shown(connected: Cluster) -> None:
    connected.forbidden = {"Event", "ConfigMap"}
    report = json.loads(run("--json").stdout)
    assert [node["state"] for node in report["nodes"]] == ["broken", "healthy"]
    assert report["unknown"] == [
        "events of nodes: may not list Events",
        "jobs: may not list ConfigMaps",
        "journal of nodes: may not list ConfigMaps",
    ]


def test_an_ec2_cluster_has_no_kubernetes_nodes(tmp_path: Path) -> None:
    (tmp_path / "Pulumi.bare.yaml").write_text("config:\n  aws:region: us-west-2\n  gpumpi:target: {kind: ec2}\n")
    done = run("-s", "bare", "--config-dir", str(tmp_path))
    assert (done.exit_code, len(done.stderr.splitlines())) == (2, 1)
    assert "bare is an EC2 cluster, without Kubernetes" in done.stderr


def test_a_kubeconfig_of_another_cluster_is_refused() -> None:
    with pytest.raises(CommandError, match="the kubeconfig belongs to cluster other, not to gpumpi-mine"):
        stack_cluster.check_cluster_name("other", "gpumpi-mine")


# --- actions of the job controller


def taken_out(state: str, *, cordoned: bool = True, drains: bool = True, silent: bool = False, **more: Any) -> dict[str, Any]:
    kind, reason, action = ("Ready", "KubeletSilent", "cordon") if silent else (GPU_CONDITION, BUS["reason"], "replace")
    out = TakenOut(NOW - timedelta(minutes=3), kind, reason, action, state, NOW, drains)  # type: ignore[arg-type]
    manifest = node("a", READY, *([] if silent else [BUS]), cordoned=cordoned, **more)
    manifest["metadata"] |= {"annotations": {TAKEN_OUT_ANNOTATION: out.text()}, "uid": "uid-a"}
    return manifest


@pytest.mark.parametrize(
    ("raw", "following"),
    [
        (taken_out("draining"), "its jobs restart on other nodes"),
        (taken_out("draining", drains=False), "its jobs stay until they end; then repair it"),
        (taken_out("draining", cordoned=False), "it was uncordoned manually, so it keeps its jobs"),
        (
            taken_out("repairing"),
            "the autoscaler removes it (pools with `minSize: 0`), or EKS repairs it 10 min after the fault",
        ),
        (
            taken_out("repairing", labels={}),
            "repair it, then restart the program that reports its conditions: the node accepts jobs again once the fault is gone",
        ),
        (taken_out("verifying"), "accepts jobs again at 12:00:30 UTC if it has no fault until then"),
        (taken_out("draining", silent=True), "its jobs restart on other nodes"),
        (
            taken_out("draining", silent=True, drains=False),
            "its jobs restart on other nodes once Kubernetes reports the node as not ready, about 50 s after the fault",
        ),
        (
            taken_out("repairing", silent=True),
            "it accepts jobs again after its kubelet has returned; otherwise EKS replaces it 30 min after the fault",
        ),
        (taken_out("repairing", silent=True, labels={}), "it accepts jobs again after its kubelet has returned"),
    ],
)
def test_a_node_that_the_controller_took_out_shows_its_state_and_what_is_next(raw: dict[str, Any], following: str) -> None:
    verdict = health(raw)
    assert (verdict.state, verdict.next) == (json.loads(raw["metadata"]["annotations"][TAKEN_OUT_ANNOTATION])["state"], following)
    assert verdict.as_json()["takenOut"] == json.loads(raw["metadata"]["annotations"][TAKEN_OUT_ANNOTATION])


def test_the_history_has_what_the_controller_did_also_of_a_node_that_is_gone() -> None:
    manifest, entries = taken_out("draining"), journal.new()
    entries = journal.update(entries, [manifest], ["uid-a"], NOW)
    entries = journal.update(entries, [], [], NOW + timedelta(minutes=9))
    texts = [moment.text for moment in findings.list_moments("a", None, (), (), entries)]
    assert texts == ["taken out of service: NvidiaXID79Error, needs a replacement", "the node is gone"]
    assert findings.find_gone_node("i-a", (), (), entries) is not None and findings.find_gone_node("b", (), (), entries) is None


def test_the_history_says_why_a_silent_node_was_taken_out() -> None:
    entries = journal.update(journal.new(), [taken_out("draining", silent=True)], ["uid-a"], NOW)
    (moment,) = findings.list_moments("a", None, (), (), entries)
    assert (
        moment.text == "taken out of service: KubeletSilent: the kubelet had stopped renewing its lease and could not be reached"
    )


def test_a_node_that_the_brake_keeps_in_service_is_reported_as_held() -> None:
    broken = node("a", READY, BUS)
    judged = findings.judge_node(broken, (), (), NOW, {**journal.new(), "held": ["a"]})
    assert "20% of the nodes broke within 60 minutes" in judged.next
    soon = findings.judge_node(broken, (), (), NOW, journal.new())
    assert soon.next == "the job controller takes it out of service"


def retirement(code: str = "instance-retirement") -> dict[str, Any]:
    return {"Code": code, "Description": "The instance is running on degraded hardware", "NotBefore": NOW + timedelta(days=14)}


def test_a_node_whose_instance_ec2_retires_has_a_warning_with_the_date_and_what_to_do() -> None:
    retired, other = scheduled.mark(
        [findings.judge_node(node(name), [], [], NOW) for name in ("n1", "n2")], {"i-n1": retirement(), "i-gone": retirement()}
    )
    assert (retired.state, retired.is_quiet, other.is_quiet) == ("healthy", False, True)
    assert retired.what == (
        "instance-retirement: EC2 ends the instance at 2026-12-07 12:00 UTC: The instance is running on degraded hardware"
    )
    assert retired.next.startswith("before that, `kubectl drain n1 ") and retired.next.endswith("Auto Scaling replaces it")
    broken = findings.judge_node(node("n1", BUS), [], [], NOW)
    assert scheduled.mark([broken], {"i-n1": retirement()})[0].next == broken.next, "the fault is more urgent"


def test_completed_events_are_over_and_the_next_one_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    done = {**retirement("system-reboot"), "Description": "[Completed] scheduled reboot", "NotBefore": NOW}
    later = {**retirement("instance-stop"), "NotBefore": NOW + timedelta(days=20)}
    pages = [{"InstanceStatuses": [{"InstanceId": "i-n1", "Events": [later, done, retirement()]}]}]
    pages += [{"InstanceStatuses": [{"InstanceId": "i-n2", "Events": [done]}]}]
    paginator = SimpleNamespace(paginate=lambda **options: pages)
    events = scheduled.group_by_instance(SimpleNamespace(ec2=SimpleNamespace(get_paginator=lambda name: paginator)))  # type: ignore[arg-type]
    assert {name: event["Code"] for name, event in events.items()} == {"i-n1": "instance-retirement"}
