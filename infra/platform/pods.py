"""Settings for pods that satisfy Pod Security `restricted`, and for node agents."""

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import pulumi
import pulumi_kubernetes as kubernetes

from infra.platform.site import Site

USER: Final = 65532
"""The `nonroot` user, for images that define no user."""

RESTRICTED_POD: Final[dict[str, Any]] = {
    "run_as_non_root": True,
    "run_as_user": USER,
    "run_as_group": USER,
    "seccomp_profile": {"type": "RuntimeDefault"},
}
RESTRICTED_CONTAINER: Final[dict[str, Any]] = {
    "allow_privilege_escalation": False,
    "read_only_root_filesystem": True,
    "capabilities": {"drop": ["ALL"]},
}
AGENT_CONTAINER: Final[dict[str, Any]] = {**RESTRICTED_CONTAINER, "run_as_user": 0}
"""Agents run as root, because they access a kubelet directory owned by root. Agents have no other privileges."""

CONFIGURATION_FILE: Final = "controller_manager_config.yaml"
CERTIFICATES: Final = "/tmp/k8s-webhook-server/serving-certs"
"""Folder in which controllers built with controller-runtime look for their webhooks' certificate."""

EVERY_TAINT: Final = [{"operator": "Exists"}]
"""Agents run on every node that their selector matches, regardless of taints."""

DEVICE_PLUGINS: Final = "/var/lib/kubelet/device-plugins"


def build_restart_annotation(*configuration: str) -> dict[str, str]:
    """Return the annotation of a pod template that restarts the pods when their configuration changes."""
    return {"gpumpi.io/configuration": hashlib.sha256("".join(configuration).encode()).hexdigest()[:16]}


def build_controller_pod_settings(account: str, nodes: Mapping[str, str]) -> dict[str, Any]:
    """Return the pod settings of a controller, which may call the API server and is never preempted."""
    return {
        "service_account_name": account,
        "automount_service_account_token": True,
        "node_selector": dict(nodes),
        "priority_class_name": "system-cluster-critical",
        "security_context": RESTRICTED_POD,
    }


def build_container(site: Site, name: str, image: str, size: tuple[int, str, str], **settings: Any) -> dict[str, Any]:
    """Return a container that satisfies Pod Security `restricted`, unless `settings` say otherwise. `size`: CPU in
    millicores, memory, and memory limit."""
    cpu, memory, limit = size
    resources = {"requests": {"cpu": site.cpu(cpu), "memory": memory}, "limits": {"memory": limit}}
    own = {"name": name, "image": site.image(image), "resources": resources, "security_context": RESTRICTED_CONTAINER}
    return {**own, **settings}


def build_http_probe(path: str, port: int, *, period: int) -> dict[str, Any]:
    return {"http_get": {"path": path, "port": port}, "period_seconds": period, "timeout_seconds": 5, "failure_threshold": 3}


def create_deployment(
    resource: str, metadata: Any, pod: Any, opts: pulumi.ResourceOptions, *, annotations: Mapping[str, str] | None = None
) -> pulumi.Resource:
    """Create a Deployment with one pod, which has the labels of the Deployment."""
    labels = metadata["labels"]
    template = {"metadata": {"labels": labels, **({"annotations": annotations} if annotations else {})}, "spec": pod}
    spec: Any = {"replicas": 1, "selector": {"match_labels": labels}, "template": template}
    return kubernetes.apps.v1.Deployment(resource, metadata=metadata, spec=spec, opts=opts)


def create_daemon_set(resource: str, metadata: Any, pod: Any, opts: pulumi.ResourceOptions, **more: Any) -> pulumi.Resource:
    """Create a DaemonSet whose pods have its labels."""
    labels = metadata["labels"]
    spec: Any = {"selector": {"match_labels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod}, **more}
    return kubernetes.apps.v1.DaemonSet(resource, metadata=metadata, spec=spec, opts=opts)
