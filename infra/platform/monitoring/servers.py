"""Pods of Prometheus, Alertmanager and kube-state-metrics. The pods satisfy Pod Security `restricted`."""

from typing import Any, Final

from infra import versions
from infra.monitoring.model import ALERTMANAGER, KUBE_STATE_METRICS, PROMETHEUS, TOKEN, WEBHOOK, Monitored
from infra.naming import JOB_LABEL, POOL_LABEL
from infra.platform.pods import RESTRICTED_CONTAINER, http_probe, of_controller
from infra.platform.site import Site

CONFIGURATION: Final = "/etc/prometheus"
DATA: Final = "/prometheus"
RETENTION: Final = "15d"
DATA_GIB: Final = 8
TELEMETRY_PORT: Final = 8081
RESOURCES: Final = ("daemonsets", "deployments", "jobs", "nodes", "pods")
"""Kinds that kube-state-metrics reads. By default, kube-state-metrics reads all kinds, including Secrets."""


def prometheus(site: Site, cluster: Monitored) -> Any:
    """Return the pod of Prometheus, which reloads its configuration without a restart, because a restart would lose the
    metrics."""
    mounts = [
        {"name": "configuration", "mount_path": CONFIGURATION, "read_only": True},
        {"name": "data", "mount_path": DATA},
    ]
    volumes: list[Any] = [
        {"name": "configuration", "config_map": {"name": PROMETHEUS.job}},
        {"name": "data", "empty_dir": {"size_limit": f"{DATA_GIB + 2}Gi"}},
    ]
    container = {
        "name": PROMETHEUS.job,
        "image": site.image(f"quay.io/prometheus/prometheus:{versions.PROMETHEUS}"),
        "args": [
            f"--config.file={CONFIGURATION}/prometheus.yml",
            f"--storage.tsdb.path={DATA}",
            f"--storage.tsdb.retention.time={RETENTION}",
            f"--storage.tsdb.retention.size={DATA_GIB}GB",
            "--enable-feature=auto-reload-config",
        ],
        "ports": [{"name": "http", "container_port": PROMETHEUS.port}],
        "resources": {"requests": {"cpu": site.cpu(100), "memory": "512Mi"}, "limits": {"memory": "2Gi"}},
        "liveness_probe": {**http_probe("/-/healthy", PROMETHEUS.port, period=20), "initial_delay_seconds": 30},
        "readiness_probe": http_probe("/-/ready", PROMETHEUS.port, period=5),
        "security_context": RESTRICTED_CONTAINER,
        "volume_mounts": mounts,
    }
    if cluster.remote_write and cluster.remote_write.secret:
        _add_secret(mounts, volumes, cluster.remote_write.secret, TOKEN)
    return {**of_controller(PROMETHEUS.job, site.system_nodes), "containers": [container], "volumes": volumes}


def alertmanager(site: Site, cluster: Monitored) -> Any:
    mounts = [
        {"name": "configuration", "mount_path": "/etc/alertmanager", "read_only": True},
        {"name": "data", "mount_path": "/alertmanager"},
    ]
    volumes: list[Any] = [
        {"name": "configuration", "config_map": {"name": ALERTMANAGER.job}},
        {"name": "data", "empty_dir": {"size_limit": "64Mi"}},
    ]
    container = {
        "name": ALERTMANAGER.job,
        "image": site.image(f"quay.io/prometheus/alertmanager:{versions.ALERTMANAGER}"),
        "args": [
            "--config.file=/etc/alertmanager/alertmanager.yml",
            "--storage.path=/alertmanager",
            "--cluster.listen-address=",  # a single replica needs no gossip
        ],
        "ports": [{"name": "http", "container_port": ALERTMANAGER.port}],
        "resources": {"requests": {"cpu": site.cpu(10), "memory": "32Mi"}, "limits": {"memory": "128Mi"}},
        "liveness_probe": {**http_probe("/-/healthy", ALERTMANAGER.port, period=20), "initial_delay_seconds": 10},
        "readiness_probe": http_probe("/-/ready", ALERTMANAGER.port, period=5),
        "security_context": RESTRICTED_CONTAINER,
        "volume_mounts": mounts,
    }
    if cluster.webhook_secret:
        _add_secret(mounts, volumes, cluster.webhook_secret, WEBHOOK)
    pod = {**of_controller(ALERTMANAGER.job, site.system_nodes), "containers": [container], "volumes": volumes}
    return {**pod, "automount_service_account_token": False}


def kube_state_metrics(site: Site) -> Any:
    port = KUBE_STATE_METRICS.port
    container = {
        "name": KUBE_STATE_METRICS.job,
        "image": site.image(f"registry.k8s.io/kube-state-metrics/kube-state-metrics:{versions.KUBE_STATE_METRICS}"),
        "args": [
            f"--port={port}",
            f"--telemetry-port={TELEMETRY_PORT}",
            f"--resources={','.join(RESOURCES)}",
            f"--metric-labels-allowlist=nodes=[{POOL_LABEL}],pods=[{JOB_LABEL}]",
        ],
        "ports": [{"name": "http", "container_port": port}, {"name": "telemetry", "container_port": TELEMETRY_PORT}],
        "resources": {"requests": {"cpu": site.cpu(10), "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
        "liveness_probe": {**http_probe("/livez", port, period=20), "initial_delay_seconds": 10},
        "readiness_probe": http_probe("/readyz", TELEMETRY_PORT, period=5),
        "security_context": RESTRICTED_CONTAINER,
    }
    return {**of_controller(KUBE_STATE_METRICS.job, site.system_nodes), "containers": [container]}


def _add_secret(mounts: list[Any], volumes: list[Any], secret: str, file: str) -> None:
    """Mount a user's Secret. The pod also starts without the Secret, which the kubelet mounts once the user creates
    it."""
    mounts.append({"name": "secret", "mount_path": file.rpartition("/")[0], "read_only": True})
    volumes.append({"name": "secret", "secret": {"secret_name": secret, "optional": True}})
