"""Nodes simulated by kwok, for clusters too large for this machine. Their taint repels all pods except benchmark pods.

https://kwok.sigs.k8s.io/docs/user/kwok-manage-nodes-and-pods/
"""

import logging
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from localcloud.kubernetes.client import ApiError
from localcloud.kubernetes.nodes import kubelet, labels
from localcloud.kubernetes.nodes.machine import Machine
from localcloud.kubernetes.running import RunningCluster
from localcloud.tools import catalogue
from localcloud.tools.build import ensure_tool

log = logging.getLogger(__name__)

KWOK = "kwok"
"""Supervisor name of the process."""
POD_NETWORK = "198.19.0.1/16"
"""IP addresses that simulated pods report. Nothing listens on them."""
LEASE_SECONDS = 40
"""Duration of a node's lease; the same as the kubelet's default. kwok renews a lease after a quarter of this time. With
longer leases, kwok renews too late on a busy machine (docs/measurements/kubernetes.md).
"""
_MIB = 1024


class Simulator:
    """The kwok process of a cluster, started with the first simulated node."""

    def __init__(self, cluster: RunningCluster) -> None:
        self._cluster = cluster
        self._started = False
        self._lock = threading.Lock()

    def create(self, machine: Machine, node_group: Mapping[str, Any] | None) -> None:
        """Create a simulated node, which is Ready at once."""
        self._ensure_started()
        try:
            self._cluster.api.create("/api/v1/nodes", build_node_object(machine, node_group))
        except ApiError as error:
            if error.status != 409:
                raise

    def _ensure_started(self) -> None:
        with self._lock:
            if not self._started:
                self._start()
                self._started = True

    def _start(self) -> None:
        options = [
            f"--kubeconfig={self._cluster.admin_kubeconfig}",
            "--manage-all-nodes=false",
            f"--manage-nodes-with-label-selector={labels.SIMULATED_TAINT}=true",
            f"--cidr={POD_NETWORK}",
            f"--node-lease-duration-seconds={LEASE_SECONDS}",
        ]
        self._cluster.supervisor.start(KWOK, [ensure_tool(catalogue.KWOK, log.info), *options])


def build_node_object(machine: Machine, node_group: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the Node object, including its status: the API server accepts a status when a node is created."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "simulated: no machine is behind this node",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": machine.name,
            "labels": labels.build_simulated_labels(machine, node_group),
            "annotations": {"kwok.x-k8s.io/node": "fake"},
        },
        "spec": {
            "providerID": machine.provider_id,
            "taints": [taint.to_object() for taint in (*labels.parse_taints(machine), labels.SIMULATED)],
        },
        "status": {
            "capacity": compute_capacity(machine),
            "allocatable": compute_allocatable(machine),
            "addresses": [
                {"type": "InternalIP", "address": machine.address},
                {"type": "InternalDNS", "address": machine.name},
                {"type": "Hostname", "address": machine.name},
            ],
            "conditions": [ready],
        },
    }


def compute_capacity(machine: Machine) -> dict[str, str]:
    """Return the capacity of a simulated node, including its devices, as if all device plugins were running."""
    return {
        "cpu": str(machine.type.vcpus),
        "memory": f"{machine.memory_kib}Ki",
        "pods": str(machine.user_data.maximum_pods or machine.maximum_pods),
        "ephemeral-storage": _get_storage_size(machine),
        "hugepages-2Mi": f"{machine.huge_page_kib // _MIB}Mi",
        **{name: str(number) for name, number in machine.devices.items()},
    }


def compute_allocatable(machine: Machine) -> dict[str, str]:
    """Return the capacity minus the kubelet's reservations."""
    reserved = kubelet.compute_reservations(machine.type.vcpus, machine.maximum_pods)
    millicores = machine.type.vcpus * 1000 - int(reserved["cpu"].removesuffix("m"))
    kept_memory = int(reserved["memory"].removesuffix("Mi")) + kubelet.EVICTION_MEMORY_MIB
    memory = machine.memory_kib - machine.huge_page_kib - kept_memory * _MIB
    return {**compute_capacity(machine), "cpu": f"{millicores}m", "memory": f"{memory}Ki"}


def _get_storage_size(machine: Machine) -> str:
    """Return the size of the instance store or, for types without one, the free space of a typical root volume."""
    return f"{machine.type.instance_store_gb}G" if machine.type.instance_store_gb else "50G"
