"""Base class of the parts that run a CSI driver while its EKS add-on is installed."""

import logging
import sys
import threading
from typing import ClassVar, Protocol

from localcloud.aws.events import Event
from localcloud.kubernetes.nodes.node import Node
from localcloud.kubernetes.part import Part
from localcloud.kubernetes.running import RunningCluster
from localcloud.processes import ROOT

log = logging.getLogger(__name__)

NAMESPACE = "kube-system"


class Controller(Protocol):
    def start(self) -> None: ...

    def stop(self) -> None: ...


class CsiPart(Part):
    addon: ClassVar[str]
    driver: ClassVar[str]
    """Name of the CSI driver."""
    service_account: ClassVar[str]

    def __init__(self, cluster: RunningCluster) -> None:
        super().__init__(cluster)
        self._nodes: dict[str, Node] = {}
        self._controller: Controller | None = None
        self._installed = False
        self._lock = threading.Lock()

    def controller(self) -> Controller | None:
        """Return the driver's controller, which provisions volumes, or None if it is not emulated."""
        return None

    def event(self, event: Event) -> None:
        if event.kind != "add-on" or event.name != f"{self.cluster.name}/{self.addon}":
            return
        if event.action == "gone":
            self._uninstall()
        elif not self._installed:
            self._install()

    def node_up(self, node: Node) -> None:
        """Start the driver on a real node whose kubelet is running. Called in the node's own thread."""
        with self._lock:
            self._nodes[node.machine.id] = node
            if self._installed:
                self._start(node)

    def node_down(self, node: Node) -> None:
        """Stop the driver on a node before the node stops."""
        with self._lock:
            self._nodes.pop(node.machine.id, None)
        self.cluster.supervisor.stop(self._name(node))

    def stop(self) -> None:
        if self._controller is not None:
            self._controller.stop()

    def _install(self) -> None:
        api = self.cluster.api
        account = {"apiVersion": "v1", "kind": "ServiceAccount"}
        api.apply({**account, "metadata": {"name": self.service_account, "namespace": NAMESPACE}})
        spec = {"attachRequired": False, "podInfoOnMount": False, "volumeLifecycleModes": ["Persistent"]}
        api.apply({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": self.driver}, "spec": spec})
        controller = self.controller()
        if controller is not None:
            controller.start()
        with self._lock:
            self._controller, self._installed = controller, True
            for node in self._nodes.values():
                self._start(node)

    def _uninstall(self) -> None:
        """Stop the driver. Existing mounts remain, as with the real driver."""
        with self._lock:
            controller, self._controller, self._installed = self._controller, None, False
            nodes = list(self._nodes.values())
        if controller is not None:
            controller.stop()
        for node in nodes:
            self.cluster.supervisor.stop(self._name(node))
        self.cluster.api.delete(f"/apis/storage.k8s.io/v1/csidrivers/{self.driver}")
        self.cluster.api.delete(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{self.service_account}")

    def _start(self, node: Node) -> None:
        first = node.process("machine")
        if first is None:
            log.warning("node %s has stopped; not starting %s", node.machine.name, self.driver)
            return
        where = ["--driver", self.driver, "--instance", node.machine.id, "--region", self.cluster.region]
        self.cluster.supervisor.start(
            self._name(node),
            [sys.executable, "-m", __package__ or "", *where, "--aws", self.cluster.control_url, "--pid", str(first.pid)],
            environment={"PYTHONPATH": str(ROOT)},
        )

    def _name(self, node: Node) -> str:
        return f"{self.driver.partition('.')[0]}-csi-{node.title}"
