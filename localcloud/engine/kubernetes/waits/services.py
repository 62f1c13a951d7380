"""Readiness of Services: a Service is ready once it has an address and its Pods are ready."""

import time

from localcloud.engine.kubernetes.objects import get_name, get_nested
from localcloud.engine.kubernetes.tokens import Kind
from localcloud.engine.kubernetes.waits.scene import READY, Condition, Scene, Verdict

ENDPOINTS = Kind("", "v1", "Endpoints")
SETTLING_SECONDS = 1.0
"""Period without changes after which the Endpoints count as stable. The official provider waits ten seconds."""
NO_PODS = (
    "Service does not target any Pods. Selected Pods may not be ready, or field '.spec.selector' may not match labels on any Pods"
)


def _check_service(scene: Scene) -> Verdict:
    if not _has_address(scene):
        return Verdict(False, "Attempting to allocate IP address to Service")
    if not _has_pods(scene):
        return READY
    endpoints = scene.find_object(ENDPOINTS, get_name(scene.live))
    if endpoints is None:
        return Verdict(False, "Finding Pods to direct traffic to")
    version = get_nested(endpoints, "metadata", "resourceVersion")
    if scene.memory.get("version") != version:
        scene.memory.update(version=version, since=time.monotonic())
    if any(part.get("notReadyAddresses") for part in endpoints.get("subsets") or []):
        return Verdict(False, "Waiting for the Pods of the Service to be ready")
    if not scene.memory.get("read") and time.monotonic() - scene.memory["since"] < SETTLING_SECONDS:
        return Verdict(False, "Finding Pods to direct traffic to")
    return READY


def _explain_service(scene: Scene) -> list[str]:
    reasons = []
    if _has_pods(scene):
        endpoints = scene.find_object(ENDPOINTS, get_name(scene.live)) or {}
        if not any(part.get("addresses") for part in endpoints.get("subsets") or []):
            reasons.append(NO_PODS)
    if not _has_address(scene):
        reasons.append("Service was not allocated an IP address; does your cloud provider support this?")
    return reasons


def _has_address(scene: Scene) -> bool:
    if get_nested(scene.live, "spec", "type") != "LoadBalancer":
        return True
    return bool(get_nested(scene.live, "status", "loadBalancer", "ingress"))


def _has_pods(scene: Scene) -> bool:
    spec = scene.live.get("spec") or {}
    return spec.get("type") != "ExternalName" and spec.get("clusterIP") != "None" and bool(spec.get("selector"))


SERVICE = Condition(_check_service, _explain_service, related=True, when_read=True)
