"""A node leaves as a managed node group's does: no new pods, the present ones evicted within their disruption budgets.

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
"""After that the machine goes whatever runs on it. EKS waits 15 minutes."""
_MIRROR = "kubernetes.io/config.mirror"


def drain(api: Api, node: str, is_over: Callable[[], bool], seconds: float = DRAIN_SECONDS) -> None:
    """Until the node's pods are gone, time is up or `is_over` says that nobody cares any more."""
    _cordon(api, node)
    asked: set[str] = set()

    def remaining() -> list[str]:
        if is_over():
            return []
        pods = [pod for pod in pods_on(api, node) if not _stays(pod)]
        for pod in pods:
            if pod["metadata"]["uid"] not in asked and _evict(api, pod):
                asked.add(pod["metadata"]["uid"])
        return [f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in pods]

    try:
        Retrying(retry=retry_if_result(bool), wait=wait_fixed(0.3), stop=stop_after_delay(seconds))(remaining)
    except RetryError as error:
        left = ", ".join(error.last_attempt.result())
        log.warning("node %s goes with pods that could not be evicted within %.0f s: %s", node, seconds, left)


def _cordon(api: Api, node: str) -> None:
    """Nothing new comes; a node that never registered is fine."""
    try:
        api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}}, kind="strategic-merge-patch")
    except ApiError as error:
        if error.status != 404:
            raise


def forget(api: Api, node: str) -> None:
    """Remove the node and what was bound to it, once its machine is gone."""
    api.delete(f"/api/v1/nodes/{node}")
    for pod in pods_on(api, node):
        api.delete(_path(pod), gracePeriodSeconds=0)


def pods_on(api: Api, node: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.get("/api/v1/pods", fieldSelector=f"spec.nodeName={node}")["items"]
    return found


def _stays(pod: dict[str, Any]) -> bool:
    """Pods of DaemonSets would come back at once, those of files on the node cannot be deleted."""
    owners = pod["metadata"].get("ownerReferences", ())
    return _MIRROR in pod["metadata"].get("annotations", {}) or any(owner["kind"] == "DaemonSet" for owner in owners)


def _evict(api: Api, pod: dict[str, Any]) -> bool:
    """Whether the pod is on its way out; a disruption budget may say not now."""
    names = {key: pod["metadata"][key] for key in ("name", "namespace")}
    try:
        api.create(f"{_path(pod)}/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": names})
    except ApiError as error:
        return error.status == 404
    return True


def _path(pod: dict[str, Any]) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
