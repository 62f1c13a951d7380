"""The registry that a cluster's nodes ask for every image, at an address of its own inside the VPC."""

import logging

from localcloud.images.registry import Registry
from localcloud.kubernetes.addresses import AWS_ADDRESS, REGISTRY_PORT
from localcloud.kubernetes.part import Part
from localcloud.kubernetes.running import RunningCluster

log = logging.getLogger(__name__)


class ImageRegistry(Part):
    """Serves what localcloud.images makes."""

    def __init__(self, cluster: RunningCluster) -> None:
        super().__init__(cluster)
        self._registry = Registry(log.info)

    def network(self) -> None:
        if self.cluster.namespace:  # without one there are no nodes that could ask
            self._registry.serve(self.cluster.listen(str(AWS_ADDRESS), REGISTRY_PORT))

    def stop(self) -> None:
        self._registry.close()
