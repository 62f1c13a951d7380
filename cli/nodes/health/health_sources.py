"""Read data about the history of nodes from the cluster: the nodes' events, and the journal of the job controller."""

from cli.clusters.kubernetes_access import Cluster, Object
from infra.health import journal
from infra.health.journal import Journal
from infra.naming import PLATFORM_NAMESPACE


def node_events(cluster: Cluster) -> list[Object]:
    return cluster.list("Event", fields={"involvedObject.kind": "Node"})


def read_journal(cluster: Cluster) -> Journal | None:
    """Return the journal; None if the job controller has never acted on a node."""
    found = cluster.find("ConfigMap", journal.CONFIG_MAP, PLATFORM_NAMESPACE)
    return None if found is None else journal.read((found.get("data") or {}).get(journal.KEY))
