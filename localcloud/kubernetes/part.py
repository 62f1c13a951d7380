"""What comes alive in a cluster beside its control plane. The order of events is told in the package's documentation."""

from collections.abc import Sequence

from localcloud.aws.events import DONE, Event, Kind, Progress
from localcloud.kubernetes.running import RunningCluster


class Part:
    """Does nothing; subclasses do what they are for."""

    def __init__(self, cluster: RunningCluster) -> None:
        self.cluster = cluster

    def network(self) -> None:
        """Namespace and bridge are there, nothing runs."""

    def options(self) -> Sequence[str]:
        """Flags for the API server."""
        return ()

    def ready(self) -> None:
        """The API server answers; the EKS cluster is not ACTIVE yet."""

    def event(self, event: Event) -> None:
        """A node group or an instance of this cluster was created, changed or is gone."""

    def progress(self, kind: Kind, name: str) -> Progress:
        """Whether what was told about it is real by now. Called with the local AWS's lock held."""
        return DONE

    def stop(self) -> None:
        """The cluster ends."""
