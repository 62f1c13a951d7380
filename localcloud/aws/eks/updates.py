"""Updates of clusters, node groups and add-ons: https://docs.aws.amazon.com/eks/latest/APIReference/API_Update.html"""

import json
import uuid
from collections.abc import Callable
from typing import Any

from localcloud.aws import durations
from localcloud.aws.call import Call
from localcloud.aws.eks.errors import not_found
from localcloud.aws.eks.state import Record, addon_of, cluster_of, node_group_of, now, page
from localcloud.aws.patching import operation


def create(updates: dict[str, Record], update_type: str, params: dict[str, Any]) -> Record:
    """Create an update, which stays in progress until the caller ends it."""
    update: Record = {
        "id": str(uuid.uuid4()),
        "status": "InProgress",
        "type": update_type,
        "params": [{"type": name, "value": _text(value)} for name, value in params.items() if value is not None],
        "createdAt": now(),
        "errors": [],
    }
    updates[update["id"]] = update
    return update


def start(
    updates: dict[str, Record],
    update_type: str,
    params: dict[str, Any],
    duration: str,
    apply: Callable[[Record], None],
    gate: Callable[[], bool] | None = None,
    *,
    failed: Callable[[], None],
) -> Record:
    """Create an update that ends after its duration, but not before `gate` returns true.

    At the end, `apply` makes the change or calls `fail`. If `apply` or `gate` raises an exception, the update fails,
    and `failed` is called to reset the resource's status from UPDATING.
    """
    update = create(updates, update_type, params)

    def end() -> str:
        apply(update)
        return "Failed" if update["errors"] else "Successful"

    def report_failure(reason: str) -> None:
        fail(update, "Unknown", reason, [])
        failed()

    durations.schedule(update, "status", "InProgress", end, duration, gate=gate, fail=report_failure)
    return update


def fail(update: Record, code: str, message: str, resource_ids: list[str]) -> None:
    update["status"] = "Failed"
    update["errors"].append({"errorCode": code, "errorMessage": message, "resourceIds": resource_ids})


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _selected_updates(call: Call) -> dict[str, Record]:
    """Return the updates of the node group or add-on specified in the call or, if the call specifies neither, of the
    cluster."""
    cluster = cluster_of(call)
    if call.params.get("nodegroupName"):
        return node_group_of(call, cluster).updates
    if call.params.get("addonName"):
        return addon_of(call, cluster).updates
    return cluster.updates


@operation("eks", "DescribeUpdate")
def describe_update(call: Call) -> Record:
    update = _selected_updates(call).get(call.params["updateId"])
    if update is None:
        raise not_found(f"No update found for ID: {call.params['updateId']}")
    return {"update": update}


@operation("eks", "ListUpdates")
def list_updates(call: Call) -> Record:
    return page(call, "updateIds", _selected_updates(call))
