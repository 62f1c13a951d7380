"""Components of a cluster other than its control plane. The package docstring has the order of calls."""

from collections.abc import Sequence

from localcloud.aws.events import DONE, Event, Kind, Progress
from localcloud.kubernetes.running import RunningCluster


class Part:
    """Base class; its methods do nothing."""

    def __init__(self, cluster: RunningCluster) -> None:
        self.cluster = cluster

    def network(self) -> None:
        """Called when namespace and bridge exist and nothing runs yet."""

    def options(self) -> Sequence[str]:
        """Return flags for the API server."""
        return ()

    def ready(self) -> None:
        """Called when the API server is ready; the EKS cluster is not ACTIVE yet."""

    def event(self, event: Event) -> None:
        """Called when a node group or an instance of this cluster was created, changed or deleted."""

    def progress(self, kind: Kind, name: str) -> Progress:
        """Done once the events so far have taken effect. The caller holds the local AWS's lock."""
        return DONE

    def stop(self) -> None:
        """Called when the cluster stops."""
