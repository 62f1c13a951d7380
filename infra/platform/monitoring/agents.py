"""Pods on every node: node-exporter, and NVIDIA's DCGM exporter on nodes with GPUs."""

from typing import Any, Final

from infra import versions
from infra.monitoring.model import DCGM_EXPORTER, NODE_EXPORTER
from infra.platform.nvidia_device_plugin import node_selection
from infra.platform.pods import EVERY_TAINT, RESTRICTED_CONTAINER, RESTRICTED_POD, http_probe
from infra.platform.site import Site

COLLECTORS: Final = ("cpu", "diskstats", "filesystem", "infiniband", "loadavg", "meminfo", "netclass", "vmstat")
"""node-exporter's collectors, without `netdev`, which would report only the pod's own interfaces: the pod is not on the
host network, where job pods could reach it."""
NOT_DISKS: Final = "^/(dev|proc|run|sys|var/lib/(containerd|kubelet))($|/)"
POD_RESOURCES: Final = "/var/lib/kubelet/pod-resources"


def node_exporter(site: Site) -> Any:
    folders = {"proc": "/proc", "sys": "/sys", "root": "/"}
    return {
        "automount_service_account_token": False,
        "priority_class_name": "system-node-critical",
        "node_selector": {"kubernetes.io/os": "linux"},
        "tolerations": EVERY_TAINT,
        "security_context": RESTRICTED_POD,
        "containers": [
            {
                "name": NODE_EXPORTER.job,
                "image": site.image(f"quay.io/prometheus/node-exporter:{versions.NODE_EXPORTER}"),
                "args": [
                    *(f"--path.{name}fs=/host/{name}" for name in folders),
                    "--collector.disable-defaults",
                    *(f"--collector.{name}" for name in COLLECTORS),
                    f"--collector.filesystem.mount-points-exclude={NOT_DISKS}",
                    f"--web.listen-address=:{NODE_EXPORTER.port}",
                ],
                "ports": [{"name": "metrics", "container_port": NODE_EXPORTER.port}],
                "resources": {"requests": {"cpu": site.cpu(10), "memory": "32Mi"}, "limits": {"memory": "128Mi"}},
                "liveness_probe": http_probe("/", NODE_EXPORTER.port, period=30),
                "readiness_probe": http_probe("/", NODE_EXPORTER.port, period=10),
                "security_context": RESTRICTED_CONTAINER,
                "volume_mounts": [
                    {"name": name, "mount_path": f"/host/{name}", "read_only": True, "mount_propagation": "HostToContainer"}
                    for name in folders
                ],
            }
        ],
        "volumes": [{"name": name, "host_path": {"path": path}} for name, path in folders.items()],
    }


def dcgm_exporter(site: Site) -> Any:
    """NOT VERIFIED on a GPU. NVIDIA's chart adds SYS_ADMIN, which only profiling metrics need; this pod has no
    capabilities. The NVIDIA runtime prepares the container's root file system and exposes all GPUs in it, because the
    image sets NVIDIA_VISIBLE_DEVICES.
    """
    return {
        "automount_service_account_token": False,
        "priority_class_name": "system-node-critical",
        **node_selection(site.gpu_selectors),
        "tolerations": EVERY_TAINT,
        "security_context": {"seccomp_profile": {"type": "RuntimeDefault"}},
        "containers": [
            {
                "name": DCGM_EXPORTER.job,
                "image": site.image(f"nvcr.io/nvidia/k8s/dcgm-exporter:{versions.DCGM_EXPORTER}"),
                "env": [
                    {"name": "DCGM_EXPORTER_KUBERNETES", "value": "true"},  # labels metrics with the pod that uses the GPU
                    {"name": "DCGM_EXPORTER_LISTEN", "value": f":{DCGM_EXPORTER.port}"},
                ],
                "ports": [{"name": "metrics", "container_port": DCGM_EXPORTER.port}],
                "resources": {"requests": {"cpu": site.cpu(50), "memory": "256Mi"}, "limits": {"memory": "512Mi"}},
                "liveness_probe": {**http_probe("/health", DCGM_EXPORTER.port, period=30), "initial_delay_seconds": 60},
                "readiness_probe": http_probe("/health", DCGM_EXPORTER.port, period=10),
                "security_context": {**RESTRICTED_CONTAINER, "read_only_root_filesystem": False, "run_as_user": 0},
                "volume_mounts": [{"name": "pod-resources", "mount_path": POD_RESOURCES, "read_only": True}],
            }
        ],
        "volumes": [{"name": "pod-resources", "host_path": {"path": POD_RESOURCES}}],
    }
