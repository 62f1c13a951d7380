"""`health`: read nodes, their events and the records of jobs, and print the history and the next step."""

import tempfile
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from cli import options
from cli.clusters import stack_cluster
from cli.clusters.kubernetes_access import Access, Cluster, Object
from cli.console import print_result, to_json
from cli.errors import CommandError, NotFound
from cli.jobs import records
from cli.jobs.records import JobRecord
from cli.nodes.health import findings, health_screen, scheduled
from infra.health import journal
from infra.health.journal import Journal
from infra.naming import PLATFORM_NAMESPACE

NAMED = 10
"""Maximum number of nodes that an error message lists."""
Answer = TypeVar("Answer")


def command(
    node: Annotated[str | None, typer.Argument(help="Name of a node, or ID of its instance; without it, all nodes.")] = None,
    stack: options.ClusterStack = None,
    config_dir: options.ConfigDir = options.STACK_FILES,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    as_json: options.Json = False,
) -> int:
    """Without NODE: the nodes with a fault or a warning, its start, and the next step. With NODE: also its history,
    from Kubernetes, EKS's node monitoring agent, the journal of the job controller and the records of jobs. Kubernetes
    keeps events for an hour. With --stack, also the events that EC2 has scheduled for the instances.
    """
    with tempfile.TemporaryDirectory() as folder:
        cluster = stack_cluster.connect_to_stack(stack, config_dir, Access(kubeconfig, context), Path(folder))
        data = _Seen(cluster)
        if stack is not None:
            data.read_ec2_events(stack, config_dir)
    now = datetime.now(UTC)
    return _show_node(data, node, now, as_json=as_json) if node else _show_all_nodes(data, now, as_json=as_json)


def list_node_events(cluster: Cluster) -> list[Object]:
    """Return the events about nodes, which components of Kubernetes record in this namespace. Users of a job namespace can
    write such events into their own one."""
    return cluster.list("Event", "default", fields={"involvedObject.kind": "Node"})


def read_journal(cluster: Cluster) -> Journal | None:
    """Return the journal; None if the job controller has never acted on a node."""
    config_map = cluster.find("ConfigMap", journal.CONFIG_MAP, PLATFORM_NAMESPACE)
    return None if config_map is None else journal.parse_journal((config_map.get("data") or {}).get(journal.KEY))


class _Seen:
    """Data from the cluster. Only the query for nodes must succeed. If another query fails, `unknown` contains the
    reason.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.unknown: list[str] = []
        self.nodes = cluster.list("Node")
        self.events = self._query_or_note(lambda: list_node_events(cluster), "events of nodes")
        self.records: Sequence[JobRecord] = self._query_or_note(lambda: records.list_records(cluster, None), "jobs")
        journals = self._query_or_note(lambda: [read_journal(cluster)], "journal of nodes")
        self.journal = journals[0] if journals else None
        self.scheduled: scheduled.Scheduled = {}

    def read_ec2_events(self, stack: str, folder: Path) -> None:
        """Read the events that EC2 has scheduled for the instances. Do nothing if the nodes are not in AWS."""
        if not any(str(node["spec"].get("providerID", "")).startswith("aws:") for node in self.nodes):
            return
        answers = self._query_or_note(lambda: [scheduled.read_scheduled_events(stack, folder)], "events that EC2 has scheduled")
        self.scheduled = answers[0] if answers else {}

    def _query_or_note(self, question: Callable[[], list[Answer]], what: str) -> list[Answer]:
        try:
            return question()
        except CommandError as error:
            self.unknown.append(f"{what}: {error}")
            return []


def _show_all_nodes(data: _Seen, now: datetime, *, as_json: bool) -> int:
    nodes = sorted(data.nodes, key=lambda node: str(node["metadata"]["name"]))
    healths = scheduled.add_event_warnings(
        [findings.assess_node_health(node, data.events, data.records, now, data.journal) for node in nodes], data.scheduled
    )
    document = {"at": now.isoformat(), "nodes": [node.as_json() for node in healths], "unknown": data.unknown}
    return print_result(document, health_screen.render_overview(healths, data.unknown, now), as_json=as_json)


def _show_node(data: _Seen, name_or_id: str, now: datetime, *, as_json: bool) -> int:
    node: Object | None = next((item for item in data.nodes if findings.has_name_or_id(item, name_or_id)), None)
    name = node["metadata"]["name"] if node is not None else name_or_id
    if node is not None:
        (health,) = scheduled.add_event_warnings(
            [findings.assess_node_health(node, data.events, data.records, now, data.journal)], data.scheduled
        )
    else:
        gone = findings.assess_deleted_node(name, data.events, data.records, data.journal)
        if gone is None:
            raise NotFound(_explain_missing_node(name_or_id, data))
        health = gone
    moments = findings.list_history(name, node, data.events, data.records, data.journal)
    document = {"at": now.isoformat(), **health.as_json(), "history": to_json(moments), "unknown": data.unknown}
    return print_result(document, health_screen.render_details(health, moments, data.unknown, now), as_json=as_json)


def _explain_missing_node(name_or_id: str, data: _Seen) -> str:
    names = sorted(str(node["metadata"]["name"]) for node in data.nodes)
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    fix = f"Choose one of: {', '.join(names[:NAMED])}{more}" if names else "The cluster has no nodes."
    return f"{name_or_id}: no such node. {fix}"
