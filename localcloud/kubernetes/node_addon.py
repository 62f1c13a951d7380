"""Base class of the parts that run a process on each node while their EKS add-on is installed."""

import logging
import threading
from typing import ClassVar

from localcloud.aws.events import Event
from localcloud.kubernetes.nodes.node import Node
from localcloud.kubernetes.part import Part
from localcloud.kubernetes.running import RunningCluster

log = logging.getLogger(__name__)

NAMESPACE = "kube-system"


class NodeAddon(Part):
    addon: ClassVar[str]

    def __init__(self, cluster: RunningCluster) -> None:
        super().__init__(cluster)
        self._nodes: dict[str, Node] = {}
        self._installed = False
        self._lock = threading.Lock()

    def install(self) -> None:
        """Create the add-on's objects, before its processes start."""

    def uninstall(self) -> None:
        """Delete the add-on's objects, after its processes have stopped."""

    def start_on_node(self, node: Node, first: int) -> None:
        """Start the process on a node. `first`: pid, on this machine, of the process that is PID 1 on the node."""
        raise NotImplementedError

    def get_process_name(self, node: Node) -> str:
        """Return the supervisor name of the process on a node."""
        raise NotImplementedError

    def on_event(self, event: Event) -> None:
        if event.kind != "add-on" or event.name != f"{self.cluster.name}/{self.addon}":
            return
        if event.action == "gone":
            self._stop_and_uninstall()
        elif not self._installed:
            self._install_and_start()

    def on_node_up(self, node: Node) -> None:
        """Start the process on a real node whose kubelet is running. Runs in the node's own thread."""
        with self._lock:
            self._nodes[node.machine.id] = node
            if self._installed:
                self._start_on_running_node(node)

    def on_node_down(self, node: Node) -> None:
        """Stop the process on a node before the node stops."""
        with self._lock:
            self._nodes.pop(node.machine.id, None)
        self.cluster.supervisor.stop(self.get_process_name(node))

    def _install_and_start(self) -> None:
        self.install()
        with self._lock:
            self._installed = True
            for node in self._nodes.values():
                self._start_on_running_node(node)

    def _stop_and_uninstall(self) -> None:
        with self._lock:
            self._installed = False
            nodes = list(self._nodes.values())
        for node in nodes:
            self.cluster.supervisor.stop(self.get_process_name(node))
        self.uninstall()

    def _start_on_running_node(self, node: Node) -> None:
        first = node.find_process("machine")
        if first is None:
            log.warning("node %s has stopped; not starting %s", node.machine.name, self.get_process_name(node))
            return
        self.start_on_node(node, first.pid)
