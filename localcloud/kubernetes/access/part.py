"""The part that makes a cluster's API server use the access webhooks of the local AWS."""

from collections.abc import Sequence

from localcloud.kubernetes.access import api_server
from localcloud.kubernetes.access import review as review  # registers the webhook handlers
from localcloud.kubernetes.part import Part


class Access(Part):
    def options(self) -> Sequence[str]:
        folder = self.cluster.folder / "access"
        folder.mkdir(exist_ok=True)
        return api_server.flags(folder, self.cluster.aws_url, self.cluster.region, self.cluster.name)
