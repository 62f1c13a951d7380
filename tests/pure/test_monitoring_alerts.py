"""Every node fault and every platform component has a runbook and an alert. Each alert fires and resolves."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from infra.health import faults, xids
from infra.monitoring import parts, rules, scrape
from infra.monitoring.faults import CATCH_ALL, HEALTH_CODE, OF_APPLICATIONS
from infra.monitoring.model import RUNBOOKS, Alert, Monitored, RemoteWrite
from infra.monitoring.runbooks import EVERYTHING, render_pages
from tests.pure import promtool

ROOT = Path(__file__).parents[2]
ALERTS = {alert.name: alert for alert in rules.list_alerts(EVERYTHING)}
EXPORTER = {'up{job="kube-state-metrics"}': "1x60"}
BROKEN = range(10, 30)
"""Minutes during which the fault of each case below persists."""


class Case(NamedTuple):
    """Series that Prometheus scrapes before, during and after a fault of 20 minutes."""

    alert: str
    series: Mapping[str, str]
    labels: Mapping[str, str]
    """Labels of the alert, in addition to its severity."""
    over_at: int = 45
    """Minute at which the alert must have been resolved."""
    queried: str = ""
    """Text that the alert's summary obtains from other metrics through a query."""


def make_broken_series(working: str, failing: str) -> str:
    """Return a series' values for an hour, one per minute."""
    return f"{working}x{BROKEN.start - 1} {failing}x{len(BROKEN) - 1} {working}x30"


def make_condition_series(name: str, status: str, values: str, node: str = "n1") -> dict[str, str]:
    return {f'kube_node_status_condition{{condition="{name}",node="{node}",status="{status}"}}': values}


def make_problem_count_series(reason: str, values: str, severity: str = "Fatal") -> dict[str, str]:
    return {f'problem_condition_count{{node="n1",pod="agent",reason="{reason}",severity="{severity}"}}': values}


GPU = make_condition_series(faults.GPU_CONDITION, "false", make_broken_series("0", "1"))
SINCE_THE_FAULT = f"_x{BROKEN.start} 1x50"
"""The agent's fault counter appears with the first fault, and keeps its value after the fault is over."""
NODE = {"node": "n1"}
XIDS = {
    **{
        'DCGM_FI_DEV_XID_ERRORS{node="n1",gpu="0"}': "0x60",
        'DCGM_FI_DEV_XID_ERRORS{node="n1",gpu="1"}': make_broken_series("0", "79"),
    },
    'DCGM_FI_DEV_XID_ERRORS{node="n2",gpu="0"}': "119x60",
}
"""The last Xid of each GPU: two GPUs are on node n1, and one is on another node."""


def list_reason_cases() -> list[Case]:
    lasting = [
        reason for reason in faults.list_known_reasons() if faults.decide_repair(faults.GPU_CONDITION, reason).owner != "nobody"
    ]
    return [
        *(Case(reason, {**GPU, **make_problem_count_series(reason, SINCE_THE_FAULT)}, NODE) for reason in lasting),
        Case("DCGMError", make_problem_count_series("DCGMError", SINCE_THE_FAULT), NODE),
        Case(HEALTH_CODE, {**GPU, **make_problem_count_series("DCGMHealthCode12", SINCE_THE_FAULT)}, NODE),
        Case(CATCH_ALL, {**GPU, **make_problem_count_series("NewReason", SINCE_THE_FAULT)}, NODE, queried=", for another reason"),
        Case(CATCH_ALL, {**GPU, **XIDS}, NODE, queried=", last Xid 79"),
        Case(OF_APPLICATIONS, make_problem_count_series("NvidiaXID31Warning", SINCE_THE_FAULT, "Warning"), NODE),
        Case("NodeNotReady", make_condition_series("Ready", "true", make_broken_series("1", "0")), NODE),
        *(
            Case(
                f"Node{name.removesuffix('Ready')}NotReady",
                make_condition_series(name, "false", make_broken_series("0", "1")),
                NODE,
            )
            for name in faults.AGENT_CONDITIONS
            if name != faults.GPU_CONDITION
        ),
    ]


def list_part_cases() -> list[Case]:
    cases = []
    for part in parts.PARTS:
        labels = {"namespace": part.namespace, part.kind.lower(): part.name}
        text = ",".join(f'{key}="{value}"' for key, value in labels.items())
        if part.kind == "Deployment":
            series = {f"kube_deployment_status_replicas_available{{{text}}}": make_broken_series("1", "0")}
        else:
            series = {f"kube_daemonset_status_number_unavailable{{{text}}}": make_broken_series("0", "2")}
        created = {f"kube_{part.kind.lower()}_created{{{text}}}": "1x60"} if part.ours else {}
        cases.append(Case(part.alert, {**EXPORTER, **series, **created}, labels))
    return cases


def list_deleted_part_cases() -> list[Case]:
    cases = []
    for part in parts.PARTS:
        if part.ours:
            labels = {"namespace": part.namespace, part.kind.lower(): part.name}
            text = ",".join(f'{key}="{value}"' for key, value in labels.items())
            created = {f"kube_{part.kind.lower()}_created{{{text}}}": f"1x{BROKEN.start - 1} stale _x{len(BROKEN) - 1} 1x30"}
            cases.append(Case(part.alert, {**EXPORTER, **created}, labels))
    return cases


def list_monitoring_cases() -> list[Case]:
    target = {"job": "node-exporter", "node": "n1"}
    sending = {"job": "prometheus", "url": "https://receiver.example.com"}
    failed = 'prometheus_remote_storage_samples_failed_total{job="prometheus",url="https://receiver.example.com"}'
    return [
        Case("KubeStateMetricsDown", {'up{job="kube-state-metrics"}': make_broken_series("1", "0")}, {}),
        Case("TargetDown", {**EXPORTER, 'up{job="node-exporter",node="n1"}': make_broken_series("1", "0")}, target),
        Case("RemoteWriteFailing", {**EXPORTER, failed: "0x9 0+60x20 1200x30"}, sending),
    ]


CASES = [*list_reason_cases(), *list_part_cases(), *list_monitoring_cases()]


def test_alert_test_cases_cover_all_alerts() -> None:
    assert sorted({case.alert for case in CASES}) == sorted(ALERTS)


def make_promtool_test(case: Case) -> dict[str, Any]:
    labels = {**case.labels, "severity": ALERTS[case.alert].severity}
    alert = ALERTS[case.alert]
    values = {"node": case.labels.get("node", ""), "job": case.labels.get("job", ""), "url": case.labels.get("url", "")}
    summary = re.sub(r"{{ \$labels\.(\w+) }}", lambda match: values[match[1]], alert.summary)
    deleted = any("stale" in series for series in case.series.values())
    summary = re.sub(r"{{ range .*{{ end }}", case.queried, summary)
    summary = summary.replace("{{ $value }}", "1" if deleted else "2")
    firing = {"exp_labels": labels, "exp_annotations": {"summary": summary, "runbook": alert.runbook_url}}
    last = BROKEN.stop - 1 if alert.hold != "0m" or alert.severity != "info" else BROKEN.start + 5
    return {
        "name": case.alert,
        "interval": "1m",
        "input_series": [{"series": series, "values": values} for series, values in case.series.items()],
        "alert_rule_test": [
            {"alertname": case.alert, "eval_time": f"{BROKEN.start - 1}m", "exp_alerts": []},
            {"alertname": case.alert, "eval_time": f"{last}m", "exp_alerts": [firing]},
            {"alertname": case.alert, "eval_time": f"{case.over_at}m", "exp_alerts": []},
        ],
    }


@pytest.mark.parametrize(
    "cases",
    [list_reason_cases(), list_part_cases(), list_deleted_part_cases(), list_monitoring_cases()],
    ids=["faults", "parts", "deleted", "monitoring"],
)
def test_alert_fires_during_a_fault_and_then_resolves(cases: Sequence[Case], tmp_path: Path) -> None:
    promtool.run_tests(tmp_path, rules.build_rule_file(EVERYTHING), [make_promtool_test(case) for case in cases])


def test_known_fault_raises_its_own_alert_instead_of_the_generic_alert(tmp_path: Path) -> None:
    series = {**GPU, **make_problem_count_series("NvidiaXID79Error", SINCE_THE_FAULT)}
    quiet = [
        {"alertname": alert_name, "eval_time": "20m", "exp_alerts": []}
        for alert_name in (CATCH_ALL, "NvidiaXID74Error", "NodeNotReady")
    ]
    case = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "alert_rule_test": quiet,
    }
    promtool.run_tests(tmp_path, rules.build_rule_file(EVERYTHING), [case])


def test_kube_state_metrics_outage_fires_only_its_own_alert(tmp_path: Path) -> None:
    part_alerts = [part.alert for part in parts.PARTS]
    case = {
        "interval": "1m",
        "input_series": [{"series": 'up{job="kube-state-metrics"}', "values": "0x60"}],
        "alert_rule_test": [{"alertname": other, "eval_time": "40m", "exp_alerts": []} for other in (*part_alerts, "TargetDown")],
    }
    promtool.run_tests(tmp_path, rules.build_rule_file(EVERYTHING), [case])


def test_wrong_alert_expectation_fails_the_test(tmp_path: Path) -> None:
    case = make_promtool_test(CASES[0])
    case["alert_rule_test"][1]["exp_alerts"] = []
    with pytest.raises(AssertionError, match=CASES[0].alert):
        promtool.run_tests(tmp_path, rules.build_rule_file(EVERYTHING), [case])


# --- the table of faults


def test_every_reason_in_the_fault_table_has_an_alert_with_the_same_name() -> None:
    assert {*faults.list_known_reasons(), HEALTH_CODE} <= set(ALERTS)
    assert faults.decide_repair(faults.GPU_CONDITION, f"{HEALTH_CODE}7").takes_node_out
    assert len(ALERTS) == len(rules.list_alerts(EVERYTHING)), "two alerts with one name"


def test_alert_is_informational_if_the_fault_takes_no_node_out_of_service() -> None:
    severity = {name: alert.severity for name, alert in ALERTS.items()}
    for reason in faults.list_known_reasons():
        costs = faults.decide_repair(faults.GPU_CONDITION, reason).takes_node_out
        assert severity[reason] == ("warning" if costs else "info")
    assert severity[OF_APPLICATIONS] == "info"
    assert all(re.search(r"NvidiaXID\d+Warning", xids.format_reason(number)) for number in xids.APPLICATION)


def test_cluster_has_alerts_only_for_its_installed_components() -> None:
    small = rules.build_rule_file(Monitored("small", (parts.JOB_CONTROLLER,)))
    named = {rule["alert"] for group in small["groups"] for rule in group["rules"] if "alert" in rule}
    of_parts = {part.alert for part in parts.PARTS}
    assert named & of_parts == {"JobControllerDown"} and "RemoteWriteFailing" not in named


# --- runbooks


def test_every_alert_has_a_runbook_page_and_vice_versa() -> None:
    """Run `python -m tests.docs.tables` to update the pages."""
    folder = ROOT / RUNBOOKS
    assert {file.name: file.read_text() for file in folder.iterdir()} == render_pages()
    assert {file.stem for file in folder.iterdir()} == {"README", *ALERTS}


@pytest.mark.parametrize("alert", ALERTS.values(), ids=ALERTS)
def test_runbook_has_meaning_and_fix_at_the_url_in_the_alert(alert: Alert) -> None:
    assert alert.meaning.endswith(".") and alert.fix.endswith(".")
    text = " ".join((ROOT / alert.runbook_url).read_text().split())
    assert alert.meaning in text and f"**Do:** {alert.fix}" in text


# --- configuration


@pytest.mark.parametrize(
    "cluster",
    [EVERYTHING, Monitored("bare", (), eks=False, queue=False, autoscaler=False, gpus=False)],
    ids=["everything", "bare"],
)
def test_prometheus_accepts_the_generated_configuration(cluster: Monitored, tmp_path: Path) -> None:
    configuration = scrape.build_prometheus_config(cluster)
    (tmp_path / "rules.yml").write_text(yaml.safe_dump(rules.build_rule_file(cluster)))
    text = yaml.safe_dump({**configuration, "rule_files": ["rules.yml"]})
    # Debian builds Prometheus without Kubernetes service discovery, so promtool cannot check these fields.
    assert text.count("kubernetes_sd_configs") == len(configuration["scrape_configs"]) + 1
    text = re.sub(r"kubernetes_sd_configs:\n((\s*)- .*\n(\2  .*\n)*)", "static_configs: []\n", text)
    # The service account's files exist only in pods.
    (tmp_path / "prometheus.yml").write_text(text.replace(scrape.ACCOUNT, str(tmp_path)))
    for name in ("token", "ca.crt"):
        (tmp_path / name).touch()
    promtool.run_promtool(tmp_path, "check", "config", "prometheus.yml")


def test_remote_write_uses_the_token_of_the_secret() -> None:
    written = scrape.build_prometheus_config(Monitored("c", (), remote_write=RemoteWrite("https://r.example.com", "login")))
    assert written["remote_write"] == [
        {"url": "https://r.example.com", "authorization": {"credentials_file": "/etc/gpumpi/remote-write/token"}}
    ]
    assert "remote_write" not in scrape.build_prometheus_config(Monitored("c", ()))


def test_alerts_are_sent_to_the_webhook_only_if_configured() -> None:
    assert scrape.build_alertmanager_config(Monitored("c", ()))["receivers"] == [{"name": "nobody"}]
    (receiver,) = scrape.build_alertmanager_config(Monitored("c", (), webhook_secret="hook"))["receivers"]
    assert receiver == {"name": "webhook", "webhook_configs": [{"url_file": "/etc/gpumpi/webhook/url"}]}
