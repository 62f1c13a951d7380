"""Updates of clusters, node groups and add-ons: https://docs.aws.amazon.com/eks/latest/APIReference/API_Update.html"""

import json
import uuid
from collections.abc import Callable
from typing import Any

from localcloud.aws import durations
from localcloud.aws.call import Call
from localcloud.aws.eks.errors import build_not_found_error
from localcloud.aws.eks.state import Record, build_page, find_addon, find_cluster, find_node_group, now
from localcloud.aws.patching import operation


def create_update(updates: dict[str, Record], update_type: str, params: dict[str, Any]) -> Record:
    """Create an update, which stays in progress until the caller ends it."""
    update: Record = {
        "id": str(uuid.uuid4()),
        "status": "InProgress",
        "type": update_type,
        "params": [{"type": name, "value": _to_text(value)} for name, value in params.items() if value is not None],
        "createdAt": now(),
        "errors": [],
    }
    updates[update["id"]] = update
    return update


def start_update(
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

    At the end, `apply` makes the change or calls `fail_update`. If `apply` or `gate` raises an exception, the update fails,
    and `failed` is called to reset the resource's status from UPDATING.
    """
    update = create_update(updates, update_type, params)

    def end_update() -> str:
        apply(update)
        return "Failed" if update["errors"] else "Successful"

    def report_update_failure(reason: str) -> None:
        fail_update(update, "Unknown", reason, [])
        failed()

    durations.schedule(update, "status", "InProgress", end_update, duration, gate=gate, fail=report_update_failure)
    return update


def fail_update(update: Record, code: str, message: str, resource_ids: list[str]) -> None:
    update["status"] = "Failed"
    update["errors"].append({"errorCode": code, "errorMessage": message, "resourceIds": resource_ids})


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def _find_updates(call: Call) -> dict[str, Record]:
    """Return the updates of the node group or add-on specified in the call or, if the call specifies neither, of the
    cluster."""
    cluster = find_cluster(call)
    if call.params.get("nodegroupName"):
        return find_node_group(call, cluster).updates
    if call.params.get("addonName"):
        return find_addon(call, cluster).updates
    return cluster.updates


@operation("eks", "DescribeUpdate")
def describe_update(call: Call) -> Record:
    update = _find_updates(call).get(call.params["updateId"])
    if update is None:
        raise build_not_found_error(f"No update found for ID: {call.params['updateId']}")
    return {"update": update}


@operation("eks", "ListUpdates")
def list_updates(call: Call) -> Record:
    return build_page(call, "updateIds", _find_updates(call))
