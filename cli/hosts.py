"""`scripts/cluster hosts`: the nodes of a plain EC2 cluster, and where each stands."""

import json
import sys
from pathlib import Path

from cli.exit_codes import FINE
from cli.plain_cluster import Failed, Node, PlainCluster


def run(stack: str, folder: Path, *, as_json: bool) -> int:
    try:
        cluster = PlainCluster(stack, folder)
        group = cluster.group()
        rows = [_row(cluster, node) for node in cluster.nodes()]
    except Failed as error:
        print(f"cluster hosts: {error}", file=sys.stderr)
        return error.code
    if as_json:
        print(json.dumps({"hosts": rows, "workers": {"min": group.minimum, "desired": group.desired, "max": group.maximum}}))
    else:
        _print(rows)
        print(f"{group.desired} workers wanted, {group.minimum} to {group.maximum} possible")
    return FINE


def _row(cluster: PlainCluster, node: Node) -> dict[str, object]:
    """`joined`: its keys are known; of a worker, that it is in service too."""
    notice = cluster.notice(node) if node.profile_arn else None
    return {
        "instanceId": node.id,
        "role": node.role,
        "address": node.address,
        "instanceType": node.instance_type,
        "state": node.state,
        "joined": notice is not None and node.state in ("running", "InService"),
        "slots": notice["slots"] if notice else None,
    }


def _print(rows: list[dict[str, object]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in ("role", "instance", "address", "type", "slots", "state", "joined"):
        table.add_column(heading, justify="right" if heading == "slots" else "left", no_wrap=True)
    for row in rows:
        slots = "?" if row["slots"] is None else str(row["slots"])
        told = [str(row[key]) for key in ("role", "instanceId", "address", "instanceType")]
        table.add_row(*told, slots, str(row["state"]), "yes" if row["joined"] else "no")
    Console(highlight=False, soft_wrap=True, markup=False).print(table)
