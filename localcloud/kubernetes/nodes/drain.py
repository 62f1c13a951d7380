"""Drains a node as a managed node group does: cordons it, then evicts pods within their disruption budgets.

https://docs.aws.amazon.com/eks/latest/userguide/managed-node-update-behavior.html
https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/
"""

import logging
from collections.abc import Callable
from typing import Any

from tenacity import RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

from localcloud.aws import durations
from localcloud.kubernetes.client import Api, ApiError

log = logging.getLogger(__name__)

LEAST_SECONDS = 120.0
"""Minimum time limit of a drain, which applies with small delay factors: pods need time to terminate."""
NO_LOAD_BALANCERS = "node.kubernetes.io/exclude-from-external-load-balancers"
_MIRROR = "kubernetes.io/config.mirror"


def get_drain_timeout() -> float:
    """Return the time limit of a drain in seconds."""
    return max(LEAST_SECONDS, durations.compute_scaled_seconds("eks-pod-eviction"))


def drain(api: Api, node: str, is_over: Callable[[], bool], seconds: float) -> list[str]:
    """Drain the node until its pods are gone, `seconds` have passed or `is_over` returns true. Return the remaining
    pods.
    """
    _patch_node(api, node, {"spec": {"unschedulable": True}})
    evicted: set[str] = set()

    def evict_all() -> bool:
        """Evict the pods, and return whether there were any."""
        pods = [] if is_over() else _list_evictable_pods(api, node)
        for pod in pods:
            if pod["metadata"]["uid"] not in evicted and _evict_pod(api, pod):
                evicted.add(pod["metadata"]["uid"])
        return bool(pods)

    try:
        Retrying(retry=retry_if_result(bool), wait=wait_fixed(0.3), stop=stop_after_delay(seconds))(evict_all)
    except RetryError:
        left = [f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in _list_evictable_pods(api, node)]
        log.warning("pods on node %s could not be evicted within %.0f s: %s", node, seconds, ", ".join(left))
        return left
    return []


def cordon(api: Api, node: str) -> None:
    """Cordon the node and remove it from load balancers, as EKS does before it replaces nodes."""
    _patch_node(api, node, {"metadata": {"labels": {NO_LOAD_BALANCERS: "true"}}, "spec": {"unschedulable": True}})


def uncordon(api: Api, node: str) -> None:
    _patch_node(api, node, {"metadata": {"labels": {NO_LOAD_BALANCERS: None}}, "spec": {"unschedulable": None}})


def delete_pods(api: Api, node: str) -> None:
    """Delete the pods that a drain left behind, ignoring disruption budgets."""
    for pod in _list_evictable_pods(api, node):
        api.delete(_build_pod_path(pod))


def _patch_node(api: Api, node: str, change: dict[str, Any]) -> None:
    """Change the Node object. Do nothing if the node never registered."""
    try:
        api.patch(f"/api/v1/nodes/{node}", change, kind="strategic-merge-patch")
    except ApiError as error:
        if error.status != 404:
            raise


def delete_node(api: Api, node: str) -> None:
    """Delete the Node object and the pods of an instance that has stopped."""
    api.delete(f"/api/v1/nodes/{node}")
    for pod in list_pods_on_node(api, node):
        api.delete(_build_pod_path(pod), gracePeriodSeconds=0)


def list_pods_on_node(api: Api, node: str) -> list[dict[str, Any]]:
    """Return the node's pods from the API server's cache, which has an index by node.

    Without `resourceVersion=0`, each list request waits until the cache is as recent as etcd:
    https://kubernetes.io/docs/reference/using-api/api-concepts/#semantics-for-get-and-list
    """
    cached = {"fieldSelector": f"spec.nodeName={node}", "resourceVersion": "0"}
    pods: list[dict[str, Any]] = api.get("/api/v1/pods", **cached)["items"]
    return pods


def _list_evictable_pods(api: Api, node: str) -> list[dict[str, Any]]:
    """Return the node's pods except those of DaemonSets, which are recreated at once, and static pods."""

    def is_not_evictable(metadata: dict[str, Any]) -> bool:
        owners = metadata.get("ownerReferences", ())
        return _MIRROR in metadata.get("annotations", {}) or any(owner["kind"] == "DaemonSet" for owner in owners)

    return [pod for pod in list_pods_on_node(api, node) if not is_not_evictable(pod["metadata"])]


def _evict_pod(api: Api, pod: dict[str, Any]) -> bool:
    """Evict a pod. Return False if a disruption budget blocks the eviction."""
    names = {key: pod["metadata"][key] for key in ("name", "namespace")}
    try:
        api.create(f"{_build_pod_path(pod)}/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": names})
    except ApiError as error:
        return error.status == 404
    return True


def _build_pod_path(pod: dict[str, Any]) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
