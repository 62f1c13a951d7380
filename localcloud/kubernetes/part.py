"""Base class for cluster components other than the control plane. The package docstring lists the order of calls."""

from collections.abc import Sequence

from localcloud.aws.events import DONE, Event, Kind, Progress
from localcloud.kubernetes.running import RunningCluster


class Part:
    """Base class of all parts. Its methods do nothing."""

    def __init__(self, cluster: RunningCluster) -> None:
        self.cluster = cluster

    def on_network_created(self) -> None:
        """Called when the namespace and the bridge exist, before any process starts."""

    def list_api_server_flags(self) -> Sequence[str]:
        """Return additional flags for the API server."""
        return ()

    def on_api_server_ready(self) -> None:
        """Called when the API server is ready, before the EKS cluster becomes ACTIVE."""

    def on_event(self, event: Event) -> None:
        """Called when a node group, add-on or instance of this cluster was created, changed or deleted."""

    def progress(self, kind: Kind, name: str) -> Progress:
        """Return DONE once all events so far have taken effect. The caller holds the local AWS's lock."""
        return DONE

    def restart_crashed(self) -> None:
        """Called before the cluster restarts crashed processes. Replace processes that cannot be restarted
        unchanged."""

    def stop(self) -> None:
        """Called when the cluster stops."""
