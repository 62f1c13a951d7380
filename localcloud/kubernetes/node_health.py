"""Reports the conditions of nodes to EKS's node auto repair."""

import logging
import threading

from localcloud.aws.eks import joining
from localcloud.aws.eks.node_groups import repair
from localcloud.kubernetes.client import ApiError
from localcloud.kubernetes.part import Part
from localcloud.kubernetes.running import RunningCluster

log = logging.getLogger(__name__)

LOOK_SECONDS = 15.0
"""Polling interval, which is the same as that of the node monitoring agent. It is short compared with the minutes that
node auto repair waits before a repair."""


class NodeHealth(Part):
    """Polls the conditions of a cluster's nodes if a node group enables node auto repair."""

    def __init__(self, cluster: RunningCluster) -> None:
        super().__init__(cluster)
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    def on_api_server_ready(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run_checks, name=f"node-health-{self.cluster.id}", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        self._ending.set()
        if self._thread is not None:
            self._thread.join()

    def _run_checks(self) -> None:
        while not self._ending.wait(LOOK_SECONDS):
            try:
                self._check_nodes()
            except (ApiError, OSError) as error:
                log.info("cannot check node conditions: %s", error)

    def _check_nodes(self) -> None:
        cluster = joining.find_cluster(self.cluster.account, self.cluster.region, self.cluster.name)
        if cluster is None or not repair.is_repair_enabled(cluster):
            return
        for node in self.cluster.api.get("/api/v1/nodes")["items"]:
            instance = str(node["spec"].get("providerID", "")).rpartition("/")[2]
            if instance:
                repair.record_conditions(instance, node["status"].get("conditions", ()))
