"""EC2's scheduled events for the nodes' instances: retirement, stop, reboot or maintenance.

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/monitoring-instances-status-check_sched.html
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from cli.aws_queries import explain_query_error
from cli.errors import CommandError
from cli.exit_codes import UNREACHABLE
from cli.nodes.health.node_health import Fault, NodeHealth
from infra.config import stack_file
from infra.facts.clients import Clients, Denied, query
from infra.facts.model import FactsError

CONDITION: Final = "ScheduledEvent"
COMPLETED: Final = ("[Completed]", "[Canceled]")
"""Prefixes of the descriptions of ended events, which EC2 still lists for a week."""
_DOES: Final = {
    "instance-retirement": "ends",
    "instance-stop": "stops",
    "instance-reboot": "reboots",
    "system-reboot": "reboots",
    "system-maintenance": "interrupts",
}

Scheduled = Mapping[str, Mapping[str, Any]]
"""Maps an instance ID to its next event, as listed by DescribeInstanceStatus."""


def read_scheduled_events(stack: str, folder: Path) -> Scheduled:
    """Return the scheduled events in a stack's Region. Raises CommandError if AWS cannot be queried."""
    region = stack_file.read_stack_file(stack_file.find_stack_file(stack, folder)).region
    if not region:
        return {}
    try:
        return query(region, lambda: find_next_events(Clients(region)))
    except (FactsError, Denied) as error:
        raise CommandError(explain_query_error(error), UNREACHABLE) from None


def find_next_events(clients: Clients) -> Scheduled:
    """Return the next scheduled event of each instance that has one."""
    filters = [{"Name": "event.code", "Values": [*_DOES]}]
    by_instance: dict[str, Mapping[str, Any]] = {}
    for page in clients.ec2.get_paginator("describe_instance_status").paginate(Filters=filters):
        for status in page["InstanceStatuses"]:
            open_ones = [
                event
                for event in status.get("Events", ())
                if event.get("NotBefore") and not event["Description"].startswith(COMPLETED)
            ]
            if open_ones:
                by_instance[status["InstanceId"]] = min(open_ones, key=lambda event: event["NotBefore"])
    return by_instance


def add_event_warnings(nodes: Sequence[NodeHealth], scheduled: Scheduled) -> list[NodeHealth]:
    """Return the nodes, with a warning added to each node whose instance has an event."""
    return [_add_event_warning(node, scheduled[node.instance]) if node.instance in scheduled else node for node in nodes]


def _add_event_warning(node: NodeHealth, event: Mapping[str, Any]) -> NodeHealth:
    code, at = str(event["Code"]), event["NotBefore"]
    what = f"EC2 {_DOES[code]} the instance at {at:%Y-%m-%d %H:%M} UTC: {event['Description']}"
    warning = Fault(CONDITION, code, what, None)
    drain = f"`kubectl drain {node.name} --ignore-daemonsets --delete-emptydir-data`"
    fix = f"before that, {drain}, then terminate {node.instance}: Auto Scaling replaces it"
    return replace(node, warnings=(warning, *node.warnings), next=node.next or fix)
