"""Render the health of nodes as text for a terminal."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from rich.console import Group, RenderableType
from rich.text import Text

from cli.console import Listing
from cli.durations import format_time_ago
from cli.jobs.waits import shorten_reason
from cli.nodes.health.node_health import SEVERITIES, Moment, NodeHealth, Severity

STYLES: Mapping[Severity, str] = {"good": "green", "doubtful": "yellow", "bad": "red"}


def render_overview(nodes: Sequence[NodeHealth], unknown: Sequence[str], now: datetime) -> RenderableType:
    """Render the nodes that are not healthy or have a warning, and the number of all other nodes."""
    return Group(*_render_overview_lines(nodes, unknown, now))


def _render_overview_lines(nodes: Sequence[NodeHealth], unknown: Sequence[str], now: datetime) -> Iterator[RenderableType]:
    loud = [node for node in nodes if not node.has_nothing_to_report]
    if loud:
        columns, wide = ("node", "pool", "state", "since", "what happened", "next", "jobs"), ("what happened", "next")
        listing = Listing(*columns, whole=("node", "since"), prose=wide)
        for node in loud:
            state = Text(node.state_text, STYLES[SEVERITIES[node.state]])
            what = Text(shorten_reason(node.problem_text))
            listing.add_row(node.name, node.pool, state, format_time_ago(node.since, now), what, node.next, ", ".join(node.jobs))
        yield listing
        yield Text()
    quiet = len(nodes) - len(loud)
    yield Text(f"{quiet} of {len(nodes)} node{'' if len(nodes) == 1 else 's'} healthy", "dim" if loud else "green")
    yield from _render_unknown(unknown)


def render_details(node: NodeHealth, moments: Sequence[Moment], unknown: Sequence[str], now: datetime) -> RenderableType:
    """Render one node with its history."""
    return Group(*_render_detail_lines(node, moments, unknown, now))


def _render_detail_lines(
    node: NodeHealth, moments: Sequence[Moment], unknown: Sequence[str], now: datetime
) -> Iterator[RenderableType]:
    heading = Text(node.name, "bold").append(f"  {node.state_text}", STYLES[SEVERITIES[node.state]])
    gpus = f"{node.gpus[0]} of {node.gpus[1]} GPUs usable" if node.gpus[1] else ""
    for part in filter(None, (node.pool and f"pool {node.pool}", node.instance_type, node.instance, gpus)):
        heading.append(f"  {part}", "default not bold")
    yield heading
    for fault in node.faults:
        since = f", {format_time_ago(fault.since, now)}" if fault.since else ""
        yield Text(f"{fault.condition}: {fault.reason}{since}: {fault.message}", "red")
    if node.next:
        yield Text(f"next: {node.next}")
    if node.jobs:
        yield Text(f"jobs on it: {', '.join(node.jobs)}")
    if moments:
        yield Text()
        rows = [(f"{moment.at:%m-%d %H:%M:%S}", moment.source, Text(moment.text)) for moment in moments]
        yield Listing("time (UTC)", "source", "what happened", rows=rows)
    yield from _render_unknown(unknown)


def _render_unknown(unknown: Sequence[str]) -> Iterator[Text]:
    for sentence in unknown:
        yield Text(f"unknown: {sentence}", "yellow")
