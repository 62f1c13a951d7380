"""Part that configures a cluster's API server to use the access webhooks of the local AWS."""

from collections.abc import Sequence
from contextlib import suppress

from localcloud.kubernetes.access import api_server
from localcloud.kubernetes.access import review as review  # registers the webhook handlers
from localcloud.kubernetes.client import ApiError
from localcloud.kubernetes.part import Part


class Access(Part):
    def list_api_server_flags(self) -> Sequence[str]:
        folder = self.cluster.folder / "access"
        folder.mkdir(exist_ok=True)
        cluster = self.cluster
        return api_server.prepare_webhook_flags(folder, cluster.control, cluster.region, cluster.name)

    def on_api_server_ready(self) -> None:
        """Make the API server query the token webhook once, so that the first user does not have to wait for it."""
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "k8s-aws-v1.none"}}
        with suppress(OSError, ApiError):  # the request is only a warm-up; if the webhook fails, users see the error themselves
            self.cluster.api.create("/apis/authentication.k8s.io/v1/tokenreviews", review)
