"""`hosts`: list the nodes of an EC2 cluster and whether they have joined."""

from cli import options
from cli.console import Listing, make_console, print_json
from cli.ec2.ec2_instances import DeployedEc2Cluster, Ec2Node
from cli.exit_codes import OK


def command(stack: options.Stack, config_dir: options.ConfigDir = options.STACK_FILES, as_json: options.Json = False) -> int:
    """Shows addresses, slots, and whether each node has joined."""
    cluster = DeployedEc2Cluster(stack, config_dir)
    group = cluster.group()
    rows = [_build_row(cluster, node) for node in cluster.nodes()]
    if as_json:
        print_json({"hosts": rows, "workers": {"min": group.minimum, "desired": group.desired, "max": group.maximum}})
    else:
        _print_table(rows)
        print(f"workers: {group.desired} desired, minimum {group.minimum}, maximum {group.maximum}")
    return OK


def _build_row(cluster: DeployedEc2Cluster, node: Ec2Node) -> dict[str, object]:
    """Return a row. `joined` means that the node published its keys and, for a worker, that it is in service."""
    notice = cluster.read_notice(node) if node.profile_arn else None
    return {
        "instanceId": node.id,
        "role": node.role,
        "address": node.address,
        "instanceType": node.instance_type,
        "state": node.state,
        "joined": notice is not None and node.state in ("running", "InService"),
        "slots": notice["slots"] if notice else None,
    }


def _print_table(rows: list[dict[str, object]]) -> None:
    listing = Listing("role", "instance", "address", "type", "slots", "state", "joined", right=["slots"])
    for row in rows:
        slots = "?" if row["slots"] is None else str(row["slots"])
        values = [str(row[key]) for key in ("role", "instanceId", "address", "instanceType")]
        listing.add_row(*values, slots, str(row["state"]), "yes" if row["joined"] else "no")
    make_console().print(listing)
