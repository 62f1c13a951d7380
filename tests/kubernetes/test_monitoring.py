"""`platform.monitoring` on a running cluster: real Prometheus, Alertmanager and exporters, but simulated GPUs."""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

import pytest

from infra.monitoring.dashboards import DASHBOARDS
from infra.naming import MONITORING_NAMESPACE
from localcloud.kubernetes.network_policy.part import ENFORCED
from testkit.job_cluster import NAMESPACE, JobCluster, build_python_command, deploy_cluster, write_job_file
from testkit.projects import create_client
from testkit.waiting import wait_until, wait_while

pytestmark = [pytest.mark.xdist_group("monitoring"), pytest.mark.mission_only]

STACK = "monitored"
JOBS = {"prometheus", "alertmanager", "kube-state-metrics", "node-exporter", "dcgm-exporter", "kueue", "kubelet"}
SLEEPS = build_python_command("import signal; print('runs', flush=True); signal.pause()")
NOT_HERE = re.compile(
    r"DCGM_FI_DEV_(POWER_USAGE|GPU_TEMP|SM_CLOCK|UNCORRECTABLE_REMAPPED_ROWS|PCIE_REPLAY_COUNTER)"
    r"|problem_condition_count|cluster_autoscaler_|kueue_evicted_workloads_total|^count by .*ALERTS"
)
"""Metrics without data in this test: they describe real GPUs, programs that this cluster does not run, or events that
do not occur here.
"""
GUARDED = (
    (MONITORING_NAMESPACE, "prometheus", 9090),
    (MONITORING_NAMESPACE, "alertmanager", 9093),
    (MONITORING_NAMESPACE, "kube-state-metrics", 8080),
    ("kube-system", "node-exporter", 9100),
    ("kube-system", "dcgm-exporter", 9400),
)
MIB = 2**20
LIMIT_SECONDS = 600.0
"""Time limit. It suffices for queries over five minutes, which need two samples, and for a rebooted node to become
ready."""
LISTENS = "Server is ready to receive web requests."
RECEIVER = """
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        print(self.rfile.read(int(self.headers["Content-Length"])).decode(), flush=True)
        self.send_response(200)
        self.end_headers()
HTTPServer(("", 8000), Handler).serve_forever()
"""
TRIES = """
import socket, sys
for address in sys.argv[1:]:
    host, _, port = address.partition(":")
    try:
        socket.create_connection((host, int(port)), timeout=5)
        print(address, "connected")
    except OSError as error:
        print(address, type(error).__name__)
"""


@pytest.fixture(scope="module")
def cluster(skip_if_unsupported: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JobCluster]:
    yield from deploy_cluster(tmp_path_factory.mktemp("monitored"), STACK)


@pytest.fixture(scope="module")
def monitoring(cluster: JobCluster) -> Iterator["Api"]:
    place, prometheus, alertmanager = MONITORING_NAMESPACE, "deploy/prometheus", "deploy/alertmanager"
    with forward_port(cluster, place, prometheus, 9090) as metrics, forward_port(cluster, place, alertmanager, 9093) as alerts:
        yield Api(metrics, alerts)


@contextmanager
def forward_port(cluster: JobCluster, namespace: str, target: str, port: int) -> Iterator[str]:
    """Forward a local port to a pod or a Deployment, and yield the local URL."""
    command = ["kubectl", "port-forward", "-n", namespace, target, f":{port}", "--address=127.0.0.1"]
    # kubectl prints a line for each connection. Use a file, because a pipe that nothing reads would fill up.
    printed = cluster.kubeconfig.with_name(f"{target.replace('/', '-')}.log")
    with printed.open("w") as log, subprocess.Popen(command, env=cluster.environment, stdout=log, stderr=log) as process:
        try:
            match = wait_until(lambda: re.search(r"127\.0\.0\.1:\d+", printed.read_text()))
            assert match is not None
            yield f"http://{match[0]}"
        finally:
            process.terminate()


class Api:
    def __init__(self, prometheus: str, alertmanager: str) -> None:
        self._prometheus, self._alertmanager = prometheus, alertmanager

    def query(self, text: str) -> list[dict[str, Any]]:
        samples: list[dict[str, Any]] = _read_json(f"{self._prometheus}/api/v1/query?query={quote(text)}")["data"]["result"]
        return samples

    def list_target_health(self) -> dict[str, set[str]]:
        """Return the health of each scrape job's targets."""
        health: dict[str, set[str]] = {}
        for target in _read_json(f"{self._prometheus}/api/v1/targets")["data"]["activeTargets"]:
            health.setdefault(target["scrapePool"], set()).add(f"{target['health']} {target['lastError']}".strip())
        return health

    def list_alerts(self) -> set[str]:
        """Return the names of the active alerts in Alertmanager."""
        return {alert["labels"]["alertname"] for alert in _read_json(f"{self._alertmanager}/api/v2/alerts")}


def _read_json(url: str) -> Any:
    with urlopen(url, timeout=30) as answer:
        return json.load(answer)


@pytest.fixture
def running_job(cluster: JobCluster, tmp_path: Path) -> Iterator[str]:
    """Name of a job that uses all GPUs of the node."""
    done = cluster.cluster("submit", write_job_file(tmp_path, "works", command=SLEEPS, workers=1))
    assert done.code == 0, done.err
    assert cluster.await_phase("works", "Running") == "Running"
    yield "works"
    cluster.cluster("delete", "works")


@pytest.fixture
def webhook(cluster: JobCluster, running_job: str) -> Iterator[str]:
    """Start a pod that receives alerts, and create the user's Secret with the pod's address. Yield the pod's name."""
    image = cluster.pods(running_job, "worker")[0]["spec"]["containers"][0]["image"]
    pod = cluster.kubectl(
        *("run", "receiver", "-n", "default", f"--image={image}", "--restart=Never", "--command", "--"),
        *build_python_command(RECEIVER),
    )
    assert pod.code == 0, pod.err
    address = wait_until(lambda: cluster.kubectl("get", "pod", "receiver", "-n", "default", "-o", "jsonpath={.status.podIP}").out)
    secret = ("secret", "generic", "chat", "-n", MONITORING_NAMESPACE, f"--from-literal=url=http://{address}:8000/")
    assert cluster.kubectl("create", *secret).code == 0
    # The kubelet updates a pod's volumes when it syncs the pod: once a minute, and when an annotation changes. Without the
    # file, Alertmanager's first message would fail, and it would send the next one only five minutes later.
    # https://kubernetes.io/docs/tasks/configure-pod-container/configure-pod-configmap/#mounted-configmaps-are-updated-automatically
    alertmanager = ("pods", "-l", "app=alertmanager", "-n", MONITORING_NAMESPACE, "gpumpi.io/test=chat", "--overwrite")
    assert cluster.kubectl("annotate", *alertmanager).code == 0
    yield "receiver"
    cluster.kubectl("delete", "pod", "receiver", "-n", "default", "--now")
    cluster.kubectl("delete", "secret", "chat", "-n", MONITORING_NAMESPACE)


def test_prometheus_scrapes_every_component(monitoring: Api) -> None:
    assert wait_until(
        monitoring.list_target_health, lambda health: health.keys() >= JOBS and all(health[job] == {"up"} for job in JOBS)
    )


def test_every_dashboard_query_returns_a_result_during_a_job(monitoring: Api, running_job: str) -> None:
    panels = [(f"{board.name}: {panel.title}", panel.query) for board in DASHBOARDS for panel in board.panels]
    queries = {title: re.sub(r"\$(\w+)", ".+", query) for title, query in panels if not NOT_HERE.search(query)}

    def list_empty_queries() -> set[str]:
        return {title for title, query in queries.items() if not monitoring.query(query)}

    assert wait_until(list_empty_queries, lambda empty_queries: not empty_queries, LIMIT_SECONDS) == set()
    used = monitoring.query(f'DCGM_FI_DEV_FB_USED{{namespace="{NAMESPACE}",pod=~"{running_job}-.*"}}')
    assert sorted(sample["metric"]["gpu"] for sample in used) == [str(number) for number in range(8)]


@pytest.fixture
def receiver(cluster: JobCluster) -> Iterator["Api"]:
    """Start a second Prometheus that receives samples at the address in the stack file."""
    (pod,) = cluster.list_objects("pods", "app=prometheus", MONITORING_NAMESPACE)
    options = ["--config.file=/dev/null", "--storage.tsdb.path=/data", "--web.enable-remote-write-receiver"]
    server = {
        "name": "prometheus",
        "image": pod["spec"]["containers"][0]["image"],
        "args": options,
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    metadata = {"name": "metrics-receiver", "namespace": "default", "labels": {"app": "metrics-receiver"}}
    receives = {"containers": [server], "volumes": [{"name": "data", "emptyDir": {}}], "securityContext": {"fsGroup": 65534}}
    items = [
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": receives},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"selector": metadata["labels"], "ports": [{"port": 9090}]},
        },
    ]
    started = cluster.kubectl("create", "-f", "-", text=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    assert started.code == 0, started.err
    try:
        # kubectl's forwarding ends at the first connection that the pod rejects
        wait_until(lambda: cluster.kubectl("logs", "metrics-receiver", "-n", "default").out, lambda log: LISTENS in log)
        with forward_port(cluster, "default", "pod/metrics-receiver", 9090) as url:
            yield Api(url, url)
    finally:
        cluster.kubectl("delete", "pod,service", "metrics-receiver", "-n", "default", "--now")


def test_the_remote_write_receiver_gets_the_metrics_of_every_component(monitoring: Api, receiver: Api) -> None:
    assert wait_until(monitoring.list_target_health, lambda health: health.keys() >= JOBS)

    def list_scrape_jobs() -> set[str]:
        return {sample["metric"]["job"] for sample in receiver.query('up{cluster="gpumpi-monitored"} == 1')}

    assert wait_until(list_scrape_jobs, lambda jobs: jobs >= JOBS, LIMIT_SECONDS) >= JOBS


@pytest.fixture
def broken_node(cluster: JobCluster, running_job: str) -> Iterator[str]:
    """Break a GPU of the job's node, and yield the node's name. At the end, repair the node if the test has not."""
    (worker,) = cluster.pods(running_job, "worker")
    node: str = worker["spec"]["nodeName"]
    assert cluster.cluster("local", "break", node, "--xid", "79", "--home", str(cluster.cloud.folder)).code == 0
    yield node
    if is_unschedulable(cluster, node):
        reboot_node(cluster, node)
        wait_while(lambda: is_unschedulable(cluster, node), bool, LIMIT_SECONDS)


def is_unschedulable(cluster: JobCluster, node: str) -> bool:
    return cluster.kubectl("get", "node", node, "-o", "jsonpath={.spec.unschedulable}").out == "true"


def reboot_node(cluster: JobCluster, node: str) -> None:
    health = cluster.cluster("health", node, "--json").json
    create_client(cluster.cloud, "ec2").reboot_instances(InstanceIds=[health["instance"]])


def test_a_broken_gpu_raises_a_webhook_alert_that_resolves_after_the_repair(
    cluster: JobCluster, monitoring: Api, webhook: str, broken_node: str
) -> None:
    assert "NodeGpuNotReady" in wait_until(monitoring.list_alerts, lambda alerts: "NodeGpuNotReady" in alerts)
    (xid,) = wait_until(lambda: monitoring.query("DCGM_FI_DEV_XID_ERRORS > 0"))
    assert (xid["value"][1], xid["metric"]["node"]) == ("79", broken_node)
    said = f"Node {broken_node}: a GPU is not ready, last Xid 79"
    wait_until(lambda: said in cluster.kubectl("logs", webhook, "-n", "default").out)

    reboot_node(cluster, broken_node)
    assert "NodeGpuNotReady" not in wait_until(
        monitoring.list_alerts, lambda alerts: "NodeGpuNotReady" not in alerts, LIMIT_SECONDS
    )


def test_job_pods_cannot_reach_metrics_endpoints(cluster: JobCluster, monitoring: Api, running_job: str) -> None:
    (state,) = cluster.cloud.clusters()
    if state.network_policies != ENFORCED:
        pytest.skip(f"network policies are {state.network_policies}")
    wait_until(monitoring.list_target_health, lambda health: health.keys() >= JOBS and all(health[job] == {"up"} for job in JOBS))
    (worker,) = cluster.pods(running_job, "worker")
    addresses = [
        f"{pod['status']['podIP']}:{port}"
        for namespace, app, port in GUARDED
        for pod in cluster.list_objects("pods", f"app={app}", namespace)
    ]
    assert len(addresses) >= len(GUARDED)
    tried = cluster.kubectl("exec", "-n", NAMESPACE, worker["metadata"]["name"], "--", *build_python_command(TRIES), *addresses)
    assert (tried.code, tried.out.splitlines()) == (0, [f"{address} TimeoutError" for address in addresses])


def test_monitoring_a_small_cluster_needs_less_than_400_mib(monitoring: Api) -> None:
    own = f'namespace="{MONITORING_NAMESPACE}"', 'namespace="kube-system",pod=~"(node|dcgm)-exporter-.*"'
    query = " + ".join(f'sum(container_memory_working_set_bytes{{{selector},container!=""}})' for selector in own)
    (sample,) = wait_until(lambda: monitoring.query(query))
    assert 50 * MIB < float(sample["value"][1]) < 400 * MIB
