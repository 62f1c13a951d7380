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
from cli.console import make_console, print_json
from cli.errors import CommandError, NotFound
from cli.exit_codes import OK
from cli.jobs import records
from cli.jobs.records import JobRecord
from cli.nodes.health import findings, health_screen, scheduled
from cli.nodes.health.health_sources import node_events, read_journal

NAMED = 10
"""Maximum number of nodes that an error message lists."""
Answer = TypeVar("Answer")


def command(
    node: Annotated[str | None, typer.Argument(help="Name of a node, or ID of its instance; without it, all nodes.")] = None,
    stack: Annotated[
        str | None, typer.Option("--stack", "-s", help="Stack name.", show_default="the cluster of the kubeconfig")
    ] = None,
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
        cluster = stack_cluster.connect(stack, config_dir, Access(kubeconfig, context), Path(folder))
        seen = _Seen(cluster)
        if stack is not None:
            seen.ask_ec2(stack, config_dir)
    now = datetime.now(UTC)
    return _one(seen, node, now, as_json=as_json) if node else _all(seen, now, as_json=as_json)


class _Seen:
    """Data from the cluster. Only the query for nodes must succeed. If another query fails, `unknown` contains the
    reason.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.unknown: list[str] = []
        self.nodes = cluster.list("Node")
        self.events = self._query(lambda: node_events(cluster), "events of nodes")
        self.records: Sequence[JobRecord] = self._query(lambda: records.all_records(cluster, None), "jobs")
        found = self._query(lambda: [read_journal(cluster)], "journal of nodes")
        self.journal = found[0] if found else None
        self.scheduled: scheduled.Scheduled = {}

    def ask_ec2(self, stack: str, folder: Path) -> None:
        """Read the events that EC2 has scheduled for the instances. Do nothing if the nodes are not in AWS."""
        if not any(str(one["spec"].get("providerID", "")).startswith("aws:") for one in self.nodes):
            return
        found = self._query(lambda: [scheduled.read(stack, folder)], "events that EC2 has scheduled")
        self.scheduled = found[0] if found else {}

    def _query(self, question: Callable[[], list[Answer]], what: str) -> list[Answer]:
        try:
            return question()
        except CommandError as error:
            self.unknown.append(f"{what}: {error}")
            return []


def _all(seen: _Seen, now: datetime, *, as_json: bool) -> int:
    nodes = sorted(seen.nodes, key=lambda one: str(one["metadata"]["name"]))
    found = scheduled.marked(
        [findings.health(one, seen.events, seen.records, now, seen.journal) for one in nodes], seen.scheduled
    )
    if as_json:
        print_json({"at": now.isoformat(), "nodes": [one.as_json() for one in found], "unknown": seen.unknown})
    else:
        make_console().print(health_screen.overview(found, seen.unknown, now))
    return OK


def _one(seen: _Seen, wanted: str, now: datetime, *, as_json: bool) -> int:
    node: Object | None = next((one for one in seen.nodes if findings.is_called(one, wanted)), None)
    name = node["metadata"]["name"] if node is not None else wanted
    if node is not None:
        (found,) = scheduled.marked([findings.health(node, seen.events, seen.records, now, seen.journal)], seen.scheduled)
    else:
        gone = findings.gone(name, seen.events, seen.records, seen.journal)
        if gone is None:
            raise NotFound(_missing(wanted, seen))
        found = gone
    moments = findings.history(name, node, seen.events, seen.records, seen.journal)
    if as_json:
        history = [one.as_json() for one in moments]
        print_json({"at": now.isoformat(), **found.as_json(), "history": history, "unknown": seen.unknown})
    else:
        make_console().print(health_screen.details(found, moments, seen.unknown, now))
    return OK


def _missing(wanted: str, seen: _Seen) -> str:
    names = sorted(str(one["metadata"]["name"]) for one in seen.nodes)
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    fix = f"Choose one of: {', '.join(names[:NAMED])}{more}" if names else "The cluster has no nodes."
    return f"{wanted}: no such node. {fix}"
