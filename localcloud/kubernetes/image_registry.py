"""Image registry of a cluster, at a link-local address inside the VPC. The nodes pull all images from this registry."""

import logging

from localcloud.aws.eks import joining
from localcloud.images.registry import Registry
from localcloud.kubernetes.addresses import AWS_ADDRESS, REGISTRY_PORT
from localcloud.kubernetes.nodes.containerd import PAUSE_IMAGE
from localcloud.kubernetes.part import Part
from localcloud.kubernetes.running import RunningCluster

log = logging.getLogger(__name__)


class ImageRegistry(Part):
    """The registry serves the images that localcloud.images builds."""

    def __init__(self, cluster: RunningCluster) -> None:
        super().__init__(cluster)
        self._registry = Registry(log.info, refuse=self._find_pull_problem)

    def on_network_created(self) -> None:
        if self.cluster.namespace:  # without a namespace, all nodes are simulated and pull no images
            self._registry.serve(self.cluster.listen(str(AWS_ADDRESS), REGISTRY_PORT))

    def _find_pull_problem(self, address: str, repository: str, is_layer: bool) -> str:
        """Return why the node with this address cannot pull from the repository. The pause image is never rejected,
        because EKS's AMIs contain it:
        awslabs/amazon-eks-ami@30ec3eb:templates/shared/provisioners/cache-pause-container.sh.
        """
        cluster = joining.find_cluster(self.cluster.account, self.cluster.region, self.cluster.name)
        if cluster is None or repository == PAUSE_IMAGE.rpartition(":")[0]:
            return ""
        return joining.find_pull_problem(cluster, address, repository.partition("/")[0], is_layer=is_layer)

    def stop(self) -> None:
        self._registry.close()
