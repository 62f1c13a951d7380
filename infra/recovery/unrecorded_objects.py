"""Kubernetes objects that an interrupted operation created without recording them.

On ^C, the Kubernetes provider cancels its requests in flight and reports the objects as not created, so Pulumi records
neither a resource nor a pending operation. The API server may have processed the requests anyway. Every later `up` then
fails with "already exists".
pulumi/pulumi-kubernetes@94977969d:provider/pkg/provider/provider.go (Cancel; Create passes k.canceler.context)
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from infra.inventory.table import KUBERNETES
from infra.recovery.pending_operations import Operation, State

CREATORS: Final = "pulumi-kubernetes"
"""Prefix of the field managers that the Kubernetes provider uses to create objects."""
SLACK: Final = timedelta(minutes=1)
"""Tolerated difference between the clocks of this machine and of the API server."""
MASKED: Final = "[secret]"
"""Text that `pulumi preview --json` prints instead of a secret. Recovery omits these values; the next `up` sets them
again."""

Period = tuple[datetime, datetime]
"""Start and end of an operation."""


def find_failed_update_periods(history: Iterable[Mapping[str, Any]]) -> list[Period]:
    """Return the periods of the updates that have failed since the last successful update or destroy. `history` is the
    output of `pulumi stack history --json`, newest entry first."""
    periods: list[Period] = []
    for entry in history:
        if entry["kind"] in ("update", "destroy") and entry["result"] == "succeeded":
            break
        if entry["kind"] == "update":
            periods.append((datetime.fromisoformat(entry["startTime"]), datetime.fromisoformat(entry["endTime"])))
    return periods


def list_planned_creates(preview: Mapping[str, Any], state: State) -> list[Operation]:
    """Return the creates of named Kubernetes objects in the output of `pulumi preview --json`, in the form of
    interrupted operations. Skip objects whose parent or provider is not in the state. Pulumi never requested those."""
    resources = [resource for resource in state["deployment"]["resources"] if not resource.get("delete")]
    ids = {resource["urn"]: str(resource.get("id", "")) for resource in resources}
    return list(_iterate_planned_creates(preview, ids))


def _iterate_planned_creates(preview: Mapping[str, Any], ids: Mapping[str, str]) -> Iterator[Operation]:
    for step in preview.get("steps") or ():
        new = step.get("newState") or {}
        if step["op"] != "create" or not new.get("custom") or not new["type"].startswith(KUBERNETES):
            continue
        provider, inputs = str(new.get("provider", "")).rpartition("::")[0], _remove_masked_values(new.get("inputs") or {})
        if new["type"].endswith("Patch") or not (inputs.get("metadata") or {}).get("name"):
            continue
        if ids.get(provider) and new.get("parent") in ids:
            fields = {name: new[name] for name in ("urn", "type", "custom", "parent")}
            needs = [urn for urn in new.get("dependencies") or () if urn in ids]
            resource = {**fields, "inputs": inputs, "provider": f"{provider}::{ids[provider]}", "dependencies": needs}
            yield Operation("creating", resource)


def is_created_by_pulumi(outputs: Mapping[str, Any], periods: Iterable[Period]) -> bool:
    """Return whether Pulumi created the object during one of these periods. Objects from other periods may belong to
    another stack that uses the same cluster."""
    metadata = outputs.get("metadata") or {}
    managers = [str(entry.get("manager")) for entry in metadata.get("managedFields") or ()]
    if not metadata.get("creationTimestamp") or not any(manager.startswith(CREATORS) for manager in managers):
        return False
    created = datetime.fromisoformat(metadata["creationTimestamp"])
    return any(start - SLACK <= created <= end + SLACK for start, end in periods)


def _remove_masked_values(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _remove_masked_values(inner) for name, inner in value.items() if inner != MASKED}
    return [_remove_masked_values(inner) for inner in value if inner != MASKED] if isinstance(value, list) else value
