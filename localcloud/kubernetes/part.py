"""What comes alive in a cluster beside its control plane. The order of events is told in the package's documentation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from localcloud.aws.events import DONE, Event, Kind, Progress

if TYPE_CHECKING:
    from localcloud.kubernetes.cluster import Cluster


class Part:
    """Does nothing; subclasses do what they are for."""

    def __init__(self, cluster: Cluster) -> None:
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


def parts() -> list[type[Part]]:
    """Every kind, in the order in which they hear."""
    # Imported late: they import Part from here.
    from localcloud.kubernetes.access.part import Access
    from localcloud.kubernetes.efs_csi.part import EfsCsi
    from localcloud.kubernetes.image_registry import ImageRegistry
    from localcloud.kubernetes.nodes.fleet import Fleet
    from localcloud.kubernetes.pod_identity.part import PodIdentity

    return [Access, PodIdentity, ImageRegistry, EfsCsi, Fleet]
