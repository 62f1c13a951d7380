"""Drains a node as a managed node group does: cordons it, then evicts pods within their disruption budgets.

https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html
https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/
"""

import logging
from collections.abc import Callable
from typing import Any

from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

from localcloud.kubernetes.client import Api, ApiError

log = logging.getLogger(__name__)

DRAIN_SECONDS = 120.0
"""Time limit of a drain, after which the instance is stopped even if pods remain. EKS waits 15 minutes."""
_MIRROR = "kubernetes.io/config.mirror"


def drain(api: Api, node: str, is_over: Callable[[], bool], seconds: float = DRAIN_SECONDS) -> None:
    """Drain the node. Return when its pods are gone, `seconds` have passed or `is_over` returns true."""
    _cordon(api, node)
    evicted: set[str] = set()

    def remaining() -> list[str]:
        if is_over():
            return []
        pods = [pod for pod in pods_on(api, node) if not _is_skipped(pod)]
        for pod in pods:
            if pod["metadata"]["uid"] not in evicted and _evict(api, pod):
                evicted.add(pod["metadata"]["uid"])
        return [f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in pods]

    try:
        Retrying(retry=retry_if_result(bool), wait=wait_fixed(0.3), stop=stop_after_delay(seconds))(remaining)
    except RetryError as error:
        left = ", ".join(error.last_attempt.result())
        log.warning("removing node %s although pods could not be evicted within %.0f s: %s", node, seconds, left)


def _cordon(api: Api, node: str) -> None:
    """Cordon the node. Do nothing if it never registered."""
    try:
        api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}}, kind="strategic-merge-patch")
    except ApiError as error:
        if error.status != 404:
            raise


def forget(api: Api, node: str) -> None:
    """Delete the Node object and its pods after the instance has stopped."""
    api.delete(f"/api/v1/nodes/{node}")
    for pod in pods_on(api, node):
        api.delete(_path(pod), gracePeriodSeconds=0)


def pods_on(api: Api, node: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.get("/api/v1/pods", fieldSelector=f"spec.nodeName={node}")["items"]
    return found


def _is_skipped(pod: dict[str, Any]) -> bool:
    """True for pods that a drain skips: DaemonSet pods are recreated at once, and static pods cannot be evicted."""
    owners = pod["metadata"].get("ownerReferences", ())
    return _MIRROR in pod["metadata"].get("annotations", {}) or any(owner["kind"] == "DaemonSet" for owner in owners)


def _evict(api: Api, pod: dict[str, Any]) -> bool:
    """Evict a pod. Return False if a disruption budget blocks the eviction."""
    names = {key: pod["metadata"][key] for key in ("name", "namespace")}
    try:
        api.create(f"{_path(pod)}/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": names})
    except ApiError as error:
        return error.status == 404
    return True


def _path(pod: dict[str, Any]) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
