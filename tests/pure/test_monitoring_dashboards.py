"""All dashboard queries are valid, and find the metrics of a small cluster."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from infra.monitoring import grafana, rules
from infra.monitoring.dashboards import DASHBOARDS, JOB, Dashboard, Panel
from infra.monitoring.model import Monitored
from tests.pure import promtool

CLUSTER = Monitored("small", (), hourly_prices={"train": "32.5", "system": "0.1"})
NODES = {"n1": ("train", 8), "n2": ("train", 8), "c1": ("system", 0)}
POD = 'namespace="mpi-jobs",pod="mnist-worker-0"'
GPU = 'node="n1",gpu="0",namespace="mpi-jobs",pod="mnist-worker-0",container="worker"'
PANELS = {f"{board.name}: {panel.title}": panel for board in DASHBOARDS for panel in board.panels}


def make_node_metrics() -> dict[str, str]:
    """Return what kube-state-metrics and node-exporter report about the nodes."""
    collected = {}
    for node, (pool, gpus) in NODES.items():
        name = f'node="{node}"'
        collected |= {
            f'kube_node_labels{{{name},label_gpumpi_io_pool="{pool}"}}': "1x60",
            f'kube_node_status_condition{{{name},condition="Ready",status="true"}}': "1x60",
            f'kube_node_status_condition{{{name},condition="AcceleratedHardwareReady",status="false"}}': "0x60",
            f"kube_node_spec_unschedulable{{{name}}}": "0x60",
            f'node_cpu_seconds_total{{{name},cpu="0",mode="idle"}}': "0+30x60",
            f'node_cpu_seconds_total{{{name},cpu="0",mode="user"}}': "0+30x60",
            f"node_memory_MemAvailable_bytes{{{name}}}": "25x60",
            f"node_memory_MemTotal_bytes{{{name}}}": "100x60",
            f"node_load5{{{name}}}": "1x60",
            f'node_filesystem_avail_bytes{{{name},mountpoint="/"}}': "100x60",
        }
        if gpus:
            collected[f'kube_node_status_allocatable{{{name},resource="nvidia_com_gpu"}}'] = f"{gpus}x60"
    return collected


def make_job_metrics() -> dict[str, str]:
    """Return the metrics of the queue, and of a job with 6 GPUs on one node."""
    ended = 'namespace="mpi-jobs",pod="old"'
    requested = 'container="worker",node="n1",resource'
    containers = {
        f'container_{metric}{{{POD},container="worker",job="kubelet"}}': "0+60x60"
        for metric in ("cpu_usage_seconds_total", "network_receive_bytes_total", "network_transmit_bytes_total")
    }
    return {
        f'kube_pod_labels{{{POD},{JOB}="mnist"}}': "1x60",
        f'kube_pod_status_phase{{{POD},phase="Running"}}': "1x60",
        f'kube_pod_status_phase{{{POD},phase="Succeeded"}}': "0x60",
        f'kube_pod_status_phase{{{ended},phase="Succeeded"}}': "1x60",
        f'kube_pod_container_status_restarts_total{{{POD},container="worker"}}': "1x60",
        f'kube_pod_container_resource_requests{{{POD},{requested}="nvidia_com_gpu"}}': "6x60",
        f'kube_pod_container_resource_requests{{{ended},{requested}="nvidia_com_gpu"}}': "8x60",
        f'kube_pod_container_resource_requests{{{POD},{requested}="cpu"}}': "10x60",
        **containers,
        f'container_memory_working_set_bytes{{{POD},container="worker"}}': "5x60",
        'kueue_pending_workloads{cluster_queue="default",status="active"}': "2x60",
        'kueue_admitted_active_workloads{cluster_queue="default"}': "1x60",
        'kueue_admission_wait_time_seconds_bucket{cluster_queue="default",le="60"}': "0+1x60",
        'kueue_admission_wait_time_seconds_bucket{cluster_queue="default",le="+Inf"}': "0+1x60",
        'kueue_evicted_workloads_total{cluster_queue="default",reason="NodeFailures"}': "0+1x60",
        'kueue_cluster_queue_resource_usage{cluster_queue="default",flavor="train",resource="nvidia.com/gpu"}': "6x60",
        'kueue_cluster_queue_nominal_quota{cluster_queue="default",flavor="train",resource="nvidia.com/gpu"}': "16x60",
        "cluster_autoscaler_unschedulable_pods_count": "0x60",
        'cluster_autoscaler_failed_scale_ups_total{reason="OutOfResource"}': "0+1x60",
        'problem_condition_count{node="n1",reason="NvidiaXID79Error",severity="Fatal"}': "0x60",
        'ALERTS{alertname="NodeNotReady",alertstate="firing",severity="warning"}': "1x60",
    }


def make_gpu_metrics() -> dict[str, str]:
    fields = ("GPU_UTIL", "FB_USED", "POWER_USAGE", "XID_ERRORS", "GPU_TEMP", "SM_CLOCK", "UNCORRECTABLE_REMAPPED_ROWS")
    return {f"DCGM_FI_DEV_{field}{{{GPU}}}": "50x60" for field in (*fields, "PCIE_REPLAY_COUNTER")}


def evaluate_queries(folder: Path, *expected: dict[str, Any]) -> None:
    series = {**make_node_metrics(), **make_job_metrics(), **make_gpu_metrics()}
    input_series = [{"series": name, "values": values} for name, values in series.items()]
    promtool.run_tests(
        folder,
        rules.build_rule_file(CLUSTER),
        [{"interval": "1m", "input_series": input_series, "promql_expr_test": list(expected)}],
    )


def expand_query(panel: Panel) -> str:
    """Return a panel's query with `All` chosen for every variable."""
    return re.sub(r"\$(\w+)", ".+", panel.query)


def test_every_dashboard_query_returns_metrics(tmp_path: Path) -> None:
    queries = [
        {"expr": f"count({expand_query(panel)}) > bool 0", "eval_time": "50m", "exp_samples": [{"labels": "{}", "value": 1}]}
        for panel in PANELS.values()
    ]
    evaluate_queries(tmp_path, *queries)


def test_query_without_metrics_fails_the_test(tmp_path: Path) -> None:
    wrong = {"expr": "count(no_such_metric) > bool 0", "eval_time": "50m", "exp_samples": [{"labels": "{}", "value": 1}]}
    with pytest.raises(AssertionError, match="no_such_metric"):
        evaluate_queries(tmp_path, wrong)


@pytest.mark.parametrize(
    ("name", "labels", "value"),
    [
        ("cluster: GPUs: in use", "{}", 6),
        ("pool: GPUs: offered", '{pool="train"}', 16),
        ("pool: GPUs: in use", '{pool="train"}', 6),
        ("cluster: Memory in use", None, 0.75),
        ("job: CPUs in use", '{pod="mnist-worker-0"}', 1),
        ("queue: Share of the quota in use", '{flavor="train",resource="nvidia.com/gpu"}', 0.375),
        ("cost: Per hour", "{}", 65.1),
        ("cost: Per hour, by namespace: GPUs in use", '{namespace="mpi-jobs"}', 24.375),
        ("cost: Per hour, by pool: GPUs without a job", '{pool="train"}', 40.625),
    ],
)
def test_panel_shows_the_expected_value(name: str, labels: str | None, value: float, tmp_path: Path) -> None:
    samples = (
        [{"labels": labels, "value": value}] if labels else [{"labels": f'{{node="{node}"}}', "value": value} for node in NODES]
    )
    evaluate_queries(tmp_path, {"expr": expand_query(PANELS[name]), "eval_time": "50m", "exp_samples": samples})


@pytest.mark.parametrize("board", DASHBOARDS, ids=lambda board: board.name)
def test_grafana_json_has_every_panel_with_its_query_and_no_overlaps(board: Dashboard) -> None:
    page = json.loads(grafana.render_dashboards()[f"{board.name}.json"])
    assert {panel["title"]: panel["targets"][0]["expr"] for panel in page["panels"]} == {p.title: p.query for p in board.panels}
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in page["panels"])
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells)) and max(x for x, _ in cells) < 24


@pytest.mark.parametrize("board", DASHBOARDS, ids=lambda board: board.name)
def test_dashboard_query_uses_only_variables_of_its_dashboard(board: Dashboard) -> None:
    used = {name for panel in board.panels for name in re.findall(r"\$(\w+)", panel.query)}
    assert used == {variable.name for variable in board.variables}


def test_cluster_pool_job_gpu_queue_and_cost_have_dashboards() -> None:
    assert set(grafana.render_dashboards()) == {
        f"{name}.json" for name in ("cluster", "pool", "job", "gpu-health", "queue", "cost")
    }
