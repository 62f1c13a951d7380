"""Fault injection: API calls that fail with AWS's errors."""

import itertools
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from localcloud.aws import patching
from localcloud.aws.call import Call
from localcloud.aws.errors import AwsError

_numbers = itertools.count(1)
_lock = threading.Lock()
_STATUS = {
    "AccessDenied": 403,
    "AccessDeniedException": 403,
    "InsufficientCapacity": 500,
    "InsufficientInstanceCapacity": 500,
    "InternalError": 500,
    "InternalFailure": 500,
    "InternalServerError": 500,
    "RequestLimitExceeded": 503,
    "ServiceUnavailable": 503,
    "SlowDown": 503,
    "Unavailable": 503,
}


@dataclass
class Fault:
    """Make `service`.`operation` fail `times` times with an error code. Later calls succeed."""

    service: str
    operation: str
    """Name of the operation; may contain wildcards, as in `Create*`."""
    code: str
    message: str = "Fault injected into the local cloud."
    times: int = 1
    match: Mapping[str, Any] = field(default_factory=dict)
    """Maps each parameter path to the value that the call must contain to match. String values may contain wildcards.

    Examples of paths: `nodegroupName`, `resourcesVpcConfig.subnetIds.0`.
    """
    after: int = 0
    """Number of matching calls that are not affected before the first failure."""
    status: int | None = None
    """HTTP status; None means AWS's status for the code."""
    id: int = field(default_factory=lambda: next(_numbers))


_faults: list[Fault] = []


def add_fault(fault: Fault) -> Fault:
    with _lock:
        _faults.append(fault)
    return fault


@patching.on_reset
def clear_faults() -> None:
    with _lock:
        _faults.clear()


def list_active_faults() -> list[Fault]:
    """Return the faults that are still active."""
    with _lock:
        return list(_faults)


def raise_matching_fault(call: Call) -> None:
    """Raise the error of the first fault that matches this call, if any."""
    with _lock:
        fault = next((fault for fault in _faults if _matches(fault, call)), None)
        if fault is None:
            return
        if fault.after > 0:
            fault.after -= 1
            return
        fault.times -= 1
        if fault.times <= 0:
            _faults.remove(fault)
    raise AwsError(fault.code, fault.message, status=fault.status or _STATUS.get(fault.code))


def _matches(fault: Fault, call: Call) -> bool:
    return (
        fault.service == call.service
        and fnmatchcase(call.operation, fault.operation)
        and all(_matches_pattern(_read_param(call.params, path), pattern) for path, pattern in fault.match.items())
    )


def _read_param(params: Any, path: str) -> Any:
    value = params
    for step in path.split("."):
        if isinstance(value, list):
            value = value[int(step)] if step.isdigit() and int(step) < len(value) else None
        elif isinstance(value, Mapping):
            value = value.get(step)
        else:
            return None
    return value


def _matches_pattern(value: Any, pattern: Any) -> bool:
    if isinstance(pattern, str) and isinstance(value, str):
        return fnmatchcase(value, pattern)
    return bool(value == pattern)
