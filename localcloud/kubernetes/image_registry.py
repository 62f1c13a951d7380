"""The registry from which a cluster's nodes pull all images, at a link-local address inside the VPC."""

import logging

from localcloud.images.registry import Registry
from localcloud.kubernetes.addresses import AWS_ADDRESS, REGISTRY_PORT
from localcloud.kubernetes.part import Part
from localcloud.kubernetes.running import RunningCluster

log = logging.getLogger(__name__)


class ImageRegistry(Part):
    """Serves the images that localcloud.images builds."""

    def __init__(self, cluster: RunningCluster) -> None:
        super().__init__(cluster)
        self._registry = Registry(log.info)

    def network(self) -> None:
        if self.cluster.namespace:  # without a namespace, all nodes are simulated and pull no images
            self._registry.serve(self.cluster.listen(str(AWS_ADDRESS), REGISTRY_PORT))

    def stop(self) -> None:
        self._registry.close()
