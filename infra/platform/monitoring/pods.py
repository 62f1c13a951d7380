"""Pods of the monitoring: Prometheus, Alertmanager and kube-state-metrics, and, on every node, node-exporter and
(with GPUs) NVIDIA's DCGM exporter. All of these pods but the last satisfy Pod Security `restricted`."""

from typing import Any, Final

from infra import versions
from infra.monitoring.model import (
    ALERTMANAGER,
    DCGM_EXPORTER,
    KUBE_STATE_METRICS,
    NODE_EXPORTER,
    PROMETHEUS,
    TOKEN,
    WEBHOOK,
    Monitored,
)
from infra.naming import JOB_LABEL, POOL_LABEL
from infra.platform.nvidia_device_plugin import build_node_affinity
from infra.platform.pods import (
    EVERY_TAINT,
    RESTRICTED_CONTAINER,
    RESTRICTED_POD,
    build_container,
    build_controller_pod_settings,
    build_http_probe,
)
from infra.platform.site import Site

CONFIGURATION: Final = "/etc/prometheus"
DATA: Final = "/prometheus"
RETENTION: Final = "15d"
DATA_GIB: Final = 8
TELEMETRY_PORT: Final = 8081
RESOURCES: Final = ("daemonsets", "deployments", "jobs", "nodes", "pods")
"""Kinds that kube-state-metrics reads. By default, kube-state-metrics reads all kinds, including Secrets."""
COLLECTORS: Final = ("cpu", "diskstats", "filesystem", "infiniband", "loadavg", "meminfo", "netclass", "vmstat")
"""node-exporter's collectors, without `netdev`, which would report only the pod's own interfaces: the pod is not on the
host network, where job pods could reach it."""
NOT_DISKS: Final = "^/(dev|proc|run|sys|var/lib/(containerd|kubelet))($|/)"
POD_RESOURCES: Final = "/var/lib/kubelet/pod-resources"


def build_prometheus_pod(site: Site, cluster: Monitored) -> Any:
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
    own = build_container(
        site,
        PROMETHEUS.job,
        f"quay.io/prometheus/prometheus:{versions.PROMETHEUS}",
        (100, "512Mi", "2Gi"),
        args=[
            f"--config.file={CONFIGURATION}/prometheus.yml",
            f"--storage.tsdb.path={DATA}",
            f"--storage.tsdb.retention.time={RETENTION}",
            f"--storage.tsdb.retention.size={DATA_GIB}GB",
            "--enable-feature=auto-reload-config",
        ],
        ports=[{"name": "http", "container_port": PROMETHEUS.port}],
        liveness_probe={**build_http_probe("/-/healthy", PROMETHEUS.port, period=20), "initial_delay_seconds": 30},
        readiness_probe=build_http_probe("/-/ready", PROMETHEUS.port, period=5),
        volume_mounts=mounts,
    )
    if cluster.remote_write and cluster.remote_write.secret:
        _add_secret_mount(mounts, volumes, cluster.remote_write.secret, TOKEN)
    return {**build_controller_pod_settings(PROMETHEUS.job, site.system_nodes), "containers": [own], "volumes": volumes}


def build_alertmanager_pod(site: Site, cluster: Monitored) -> Any:
    mounts = [
        {"name": "configuration", "mount_path": "/etc/alertmanager", "read_only": True},
        {"name": "data", "mount_path": "/alertmanager"},
    ]
    volumes: list[Any] = [
        {"name": "configuration", "config_map": {"name": ALERTMANAGER.job}},
        {"name": "data", "empty_dir": {"size_limit": "64Mi"}},
    ]
    own = build_container(
        site,
        ALERTMANAGER.job,
        f"quay.io/prometheus/alertmanager:{versions.ALERTMANAGER}",
        (10, "32Mi", "128Mi"),
        args=[
            "--config.file=/etc/alertmanager/alertmanager.yml",
            "--storage.path=/alertmanager",
            "--cluster.listen-address=",  # a single replica needs no gossip
        ],
        ports=[{"name": "http", "container_port": ALERTMANAGER.port}],
        liveness_probe={**build_http_probe("/-/healthy", ALERTMANAGER.port, period=20), "initial_delay_seconds": 10},
        readiness_probe=build_http_probe("/-/ready", ALERTMANAGER.port, period=5),
        volume_mounts=mounts,
    )
    if cluster.webhook_secret:
        _add_secret_mount(mounts, volumes, cluster.webhook_secret, WEBHOOK)
    pod = {**build_controller_pod_settings(ALERTMANAGER.job, site.system_nodes), "containers": [own], "volumes": volumes}
    return {**pod, "automount_service_account_token": False}


def build_kube_state_metrics_pod(site: Site) -> Any:
    port = KUBE_STATE_METRICS.port
    own = build_container(
        site,
        KUBE_STATE_METRICS.job,
        f"registry.k8s.io/kube-state-metrics/kube-state-metrics:{versions.KUBE_STATE_METRICS}",
        (10, "64Mi", "256Mi"),
        args=[
            f"--port={port}",
            f"--telemetry-port={TELEMETRY_PORT}",
            f"--resources={','.join(RESOURCES)}",
            f"--metric-labels-allowlist=nodes=[{POOL_LABEL}],pods=[{JOB_LABEL}]",
        ],
        ports=[{"name": "http", "container_port": port}, {"name": "telemetry", "container_port": TELEMETRY_PORT}],
        liveness_probe={**build_http_probe("/livez", port, period=20), "initial_delay_seconds": 10},
        readiness_probe=build_http_probe("/readyz", TELEMETRY_PORT, period=5),
    )
    return {**build_controller_pod_settings(KUBE_STATE_METRICS.job, site.system_nodes), "containers": [own]}


def _add_secret_mount(mounts: list[Any], volumes: list[Any], secret: str, file: str) -> None:
    """Mount a user's Secret. The pod also starts without the Secret, which the kubelet mounts once the user creates
    it."""
    mounts.append({"name": "secret", "mount_path": file.rpartition("/")[0], "read_only": True})
    volumes.append({"name": "secret", "secret": {"secret_name": secret, "optional": True}})


def build_node_exporter_pod(site: Site) -> Any:
    folders = {"proc": "/proc", "sys": "/sys", "root": "/"}
    return {
        "automount_service_account_token": False,
        "priority_class_name": "system-node-critical",
        "node_selector": {"kubernetes.io/os": "linux"},
        "tolerations": EVERY_TAINT,
        "security_context": RESTRICTED_POD,
        "containers": [
            build_container(
                site,
                NODE_EXPORTER.job,
                f"quay.io/prometheus/node-exporter:{versions.NODE_EXPORTER}",
                (10, "32Mi", "128Mi"),
                args=[
                    *(f"--path.{name}fs=/host/{name}" for name in folders),
                    "--collector.disable-defaults",
                    *(f"--collector.{name}" for name in COLLECTORS),
                    f"--collector.filesystem.mount-points-exclude={NOT_DISKS}",
                    f"--web.listen-address=:{NODE_EXPORTER.port}",
                ],
                ports=[{"name": "metrics", "container_port": NODE_EXPORTER.port}],
                liveness_probe=build_http_probe("/", NODE_EXPORTER.port, period=30),
                readiness_probe=build_http_probe("/", NODE_EXPORTER.port, period=10),
                volume_mounts=[
                    {"name": name, "mount_path": f"/host/{name}", "read_only": True, "mount_propagation": "HostToContainer"}
                    for name in folders
                ],
            )
        ],
        "volumes": [{"name": name, "host_path": {"path": path}} for name, path in folders.items()],
    }


def build_dcgm_exporter_pod(site: Site) -> Any:
    """NOT VERIFIED on a GPU. NVIDIA's chart adds SYS_ADMIN, which only profiling metrics need; this pod has no
    capabilities. The NVIDIA runtime prepares the container's root file system and exposes all GPUs in it, because the
    image sets NVIDIA_VISIBLE_DEVICES.
    """
    return {
        "automount_service_account_token": False,
        "priority_class_name": "system-node-critical",
        **build_node_affinity(site.gpu_selectors),
        "tolerations": EVERY_TAINT,
        "security_context": {"seccomp_profile": {"type": "RuntimeDefault"}},
        "containers": [
            build_container(
                site,
                DCGM_EXPORTER.job,
                f"nvcr.io/nvidia/k8s/dcgm-exporter:{versions.DCGM_EXPORTER}",
                (50, "256Mi", "512Mi"),
                env=[
                    {"name": "DCGM_EXPORTER_KUBERNETES", "value": "true"},  # labels metrics with the pod that uses the GPU
                    {"name": "DCGM_EXPORTER_LISTEN", "value": f":{DCGM_EXPORTER.port}"},
                ],
                ports=[{"name": "metrics", "container_port": DCGM_EXPORTER.port}],
                liveness_probe={**build_http_probe("/health", DCGM_EXPORTER.port, period=30), "initial_delay_seconds": 60},
                readiness_probe=build_http_probe("/health", DCGM_EXPORTER.port, period=10),
                security_context={**RESTRICTED_CONTAINER, "read_only_root_filesystem": False, "run_as_user": 0},
                volume_mounts=[{"name": "pod-resources", "mount_path": POD_RESOURCES, "read_only": True}],
            )
        ],
        "volumes": [{"name": "pod-resources", "host_path": {"path": POD_RESOURCES}}],
    }
