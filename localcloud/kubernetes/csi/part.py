"""Base class of the parts that run a CSI driver while its EKS add-on is installed."""

import sys
from typing import ClassVar, Final, Protocol

from localcloud.control import TOKEN_VARIABLE
from localcloud.kubernetes.node_addon import NAMESPACE, NodeAddon
from localcloud.kubernetes.nodes.node import Node
from localcloud.kubernetes.running import RunningCluster
from localcloud.processes import ROOT

DRIVER_ENVIRONMENT: Final = {"GRPC_ENABLE_FORK_SUPPORT": "0"}
"""gRPC would start its threads again in the child that creates a user namespace, and Linux lets only a process with one
thread do that."""


class Controller(Protocol):
    def start(self) -> None: ...

    def stop(self) -> None: ...


class CsiPart(NodeAddon):
    driver: ClassVar[str]
    """Name of the CSI driver."""
    service_account: ClassVar[str]

    def __init__(self, cluster: RunningCluster) -> None:
        super().__init__(cluster)
        self._controller: Controller | None = None

    def controller(self) -> Controller | None:
        """Return the driver's controller, which provisions volumes, or None if the controller is not emulated."""
        return None

    def stop(self) -> None:
        if self._controller is not None:
            self._controller.stop()

    def install(self) -> None:
        api = self.cluster.api
        account = {"apiVersion": "v1", "kind": "ServiceAccount"}
        api.apply({**account, "metadata": {"name": self.service_account, "namespace": NAMESPACE}})
        spec = {"attachRequired": False, "podInfoOnMount": False, "volumeLifecycleModes": ["Persistent"]}
        api.apply({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": self.driver}, "spec": spec})
        self._controller = self.controller()
        if self._controller is not None:
            self._controller.start()

    def uninstall(self) -> None:
        """Stop the controller. Existing mounts remain, as with the real driver."""
        controller, self._controller = self._controller, None
        if controller is not None:
            controller.stop()
        self.cluster.api.delete(f"/apis/storage.k8s.io/v1/csidrivers/{self.driver}")
        self.cluster.api.delete(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{self.service_account}")

    def start_on_node(self, node: Node, first: int) -> None:
        where = ["--driver", self.driver, "--instance", node.machine.id, "--region", self.cluster.region]
        self.cluster.supervisor.start(
            self.get_process_name(node),
            [sys.executable, "-m", __package__ or "", *where, "--aws", self.cluster.control.url, "--pid", str(first)],
            environment={"PYTHONPATH": str(ROOT), TOKEN_VARIABLE: self.cluster.control.token, **DRIVER_ENVIRONMENT},
        )

    def get_process_name(self, node: Node) -> str:
        return f"{self.driver.partition('.')[0]}-csi-{node.title}"
