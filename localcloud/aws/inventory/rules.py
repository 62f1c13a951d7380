"""Rules for state that AWS or moto keeps but that is not a leftover. The rules are the same for all resource types."""

from typing import Any

from localcloud.aws.inventory.state import Path

_ENDED = {
    "cancelled",
    "canceled",
    "closed",
    "delete_complete",
    "deleted",
    "expired",
    "pendingdeletion",
    "pending_deletion",
    "released",
    "terminated",
}
_STATE_NAMES = ("state", "status", "_state", "_status", "State", "Status", "lifecycle", "key_state", "life_cycle_state")
_CACHES = {"_release_labels", "_ri_offerings", "_ri_offerings_generated", "endpoint", "settings"}
_TRACES = ("last_used", "last_accessed", "last_activity", "local_cloud_ssm_sessions__Sessions")
"""Sessions of Session Manager end when their clients disconnect. AWS lists them only in a history."""


def has_ended(thing: Any) -> bool:
    """Return whether a resource has ended, although AWS may still list it.

    Examples are a terminated instance, a deleted NAT gateway and a key pending deletion.
    """
    for name in _STATE_NAMES:
        value = _read_member(thing, name)
        if isinstance(value, dict):  # EC2: {"Name": "terminated", "Code": 48}
            value = value.get("Name") or value.get("Code")
        value = getattr(value, "name", value)
        if isinstance(value, str) and value.lower() in _ENDED:
            return True
    parts = _read_member(thing, "instances")  # an EC2 reservation has no state of its own
    return isinstance(parts, list) and bool(parts) and all(has_ended(part) for part in parts)


def is_session(thing: Any) -> bool:
    """Return whether `thing` contains temporary credentials, which expire on their own."""
    key = _read_member(thing, "access_key_id")
    return isinstance(key, str) and key.startswith("ASIA")


def is_owned_by_aws(path: Path, thing: Any) -> bool:
    """Return whether AWS owns the resource: an AWS managed key, a log group that a service recreated, or a resource with a
    reserved name or path."""
    if path[-1].startswith("alias/aws/") or (path[0] == "_parameters" and path[-1].startswith("/aws/")):
        return True
    owner = _read_member(thing, "key_manager")
    where = _read_member(thing, "path")
    return (
        owner == "AWS"
        or bool(_read_member(thing, "is_made_by_aws"))
        or (isinstance(where, str) and where.startswith("/aws-service-role/"))
    )


def is_history(path: Path) -> bool:
    """Return whether the path leads to a record of history or usage instead of a resource."""
    return any(name.lstrip("_").startswith("deleted") or name.lstrip("_") in _TRACES for name in path)


def is_derived_or_empty(path: Path) -> bool:
    """Return whether the path leads to a catalog that moto computes on demand, or to an extension's empty state."""
    return path[0] in _CACHES or (len(path) == 1 and path[0].startswith("local_cloud_"))


def _read_member(thing: Any, name: str) -> Any:
    if isinstance(thing, dict):
        return thing.get(name)
    return vars(thing).get(name) if hasattr(thing, "__dict__") else None
