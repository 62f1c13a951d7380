"""The part that runs the EFS CSI driver while the EKS add-on aws-efs-csi-driver is installed."""

import logging
import sys
import threading
from typing import Any

from localcloud.aws.events import Event
from localcloud.kubernetes.efs_csi import DRIVER
from localcloud.kubernetes.efs_csi.controller import NAMESPACE, SERVICE_ACCOUNT, Controller
from localcloud.kubernetes.nodes.node import Node
from localcloud.kubernetes.part import Part
from localcloud.kubernetes.running import RunningCluster
from localcloud.processes import ROOT

log = logging.getLogger(__name__)

ADDON = "aws-efs-csi-driver"
CSI_DRIVER: dict[str, Any] = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "CSIDriver",
    "metadata": {"name": DRIVER},
    "spec": {"attachRequired": False, "podInfoOnMount": False, "volumeLifecycleModes": ["Persistent"]},
}


class EfsCsi(Part):
    def __init__(self, cluster: RunningCluster) -> None:
        super().__init__(cluster)
        self._nodes: dict[str, Node] = {}
        self._controller: Controller | None = None
        """The controller; None if the add-on is not installed."""
        self._lock = threading.Lock()

    def event(self, event: Event) -> None:
        if event.kind != "add-on" or event.name != f"{self.cluster.name}/{ADDON}":
            return
        if event.action == "gone":
            self._uninstall()
        elif self._controller is None:
            self._install()

    def node_up(self, node: Node) -> None:
        """Start the driver on a real node whose kubelet is running. Called in the node's own thread."""
        with self._lock:
            self._nodes[node.machine.id] = node
            if self._controller is not None:
                self._start(node)

    def node_down(self, node: Node) -> None:
        """Stop the driver on a node before the node stops."""
        with self._lock:
            self._nodes.pop(node.machine.id, None)
        self.cluster.supervisor.stop(_name(node))

    def stop(self) -> None:
        if self._controller is not None:
            self._controller.stop()

    def _install(self) -> None:
        account = {"apiVersion": "v1", "kind": "ServiceAccount"}
        self.cluster.api.apply({**account, "metadata": {"name": SERVICE_ACCOUNT, "namespace": NAMESPACE}})
        self.cluster.api.apply(CSI_DRIVER)
        controller = Controller(self.cluster)
        controller.start()
        with self._lock:
            self._controller = controller
            for node in self._nodes.values():
                self._start(node)

    def _uninstall(self) -> None:
        """Stop the driver. Existing mounts remain, as with the real driver."""
        with self._lock:
            controller, self._controller = self._controller, None
            nodes = list(self._nodes.values())
        if controller is not None:
            controller.stop()
        for node in nodes:
            self.cluster.supervisor.stop(_name(node))
        self.cluster.api.delete(f"/apis/storage.k8s.io/v1/csidrivers/{DRIVER}")
        self.cluster.api.delete(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{SERVICE_ACCOUNT}")

    def _start(self, node: Node) -> None:
        first = node.process("machine")
        if first is None:
            log.warning("node %s has stopped; not starting the EFS driver", node.machine.name)
            return
        where = ["--instance", node.machine.id, "--region", self.cluster.region]
        self.cluster.supervisor.start(
            _name(node),
            [sys.executable, "-m", __package__ or "", *where, "--aws", self.cluster.aws_url, "--pid", str(first.pid)],
            namespace=node.place.namespace,
            environment={"PYTHONPATH": str(ROOT)},
        )


def _name(node: Node) -> str:
    return f"efs-csi-{node.title}"
