"""Read the job controller's journal of nodes from the cluster."""

from cli.cluster_access import Cluster
from infra.health import journal
from infra.health.journal import Journal
from infra.naming import PLATFORM_NAMESPACE


def read_journal(cluster: Cluster) -> Journal | None:
    """Return the journal; None if the job controller has never acted on a node."""
    found = cluster.find("ConfigMap", journal.CONFIG_MAP, PLATFORM_NAMESPACE)
    return None if found is None else journal.read(found["data"].get(journal.KEY))
