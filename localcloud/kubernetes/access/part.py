"""Access in a cluster's lifecycle: the API server asks the local AWS."""

from collections.abc import Sequence

from localcloud.kubernetes.access import api_server
from localcloud.kubernetes.access import review as review  # registers the handlers of the webhooks
from localcloud.kubernetes.part import Part


class Access(Part):
    def options(self) -> Sequence[str]:
        folder = self.cluster.folder / "access"
        folder.mkdir(exist_ok=True)
        return api_server.flags(folder, self.cluster.aws_url, self.cluster.region, self.cluster.name)
