"""Emulated durations of AWS operations.

They are AWS's durations times a factor: 0 (default) for no delay, 1 for AWS's speed, 1/60 for a second per minute.
"""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from localcloud.aws import patching


@dataclass(frozen=True)
class Duration:
    seconds: float
    source: str


_TERRAFORM = "public logs of terraform apply and destroy"

DURATIONS: dict[str, Duration] = {
    "eks-cluster": Duration(540, f"EKS: 9 minutes or less on average (2021-03); {_TERRAFORM}: 6m42s to 9m24s, five of 2022-2026"),
    "eks-cluster-update": Duration(120, "estimate: one to three minutes for endpoint or logging"),
    "eks-cluster-version-update": Duration(600, "EKS user guide: an update takes several minutes"),
    "eks-cluster-delete": Duration(165, f"{_TERRAFORM}: 2m30s, 2m31s, 3m48s"),
    "eks-node-group": Duration(120, f"{_TERRAFORM}: 1m47s to 2m10s, six (DevopsArtFactory/terraform-provisioning#46, #47)"),
    "eks-node-group-update": Duration(60, "estimate: configuration update without new instances"),
    "eks-node-group-version-update": Duration(600, "estimate: surge, drain and termination of one batch of nodes"),
    "eks-node-group-delete": Duration(375, f"{_TERRAFORM}: 4m12s, 6m19s, 6m21s, 8m21s (also gruntwork-io/cloud-nuke#339)"),
    "eks-addon": Duration(25, f"{_TERRAFORM}: 14 to 66 seconds, most often 24"),
    "eks-addon-delete": Duration(10, f"{_TERRAFORM}: 9 seconds"),
    "ec2-instance": Duration(12, f"{_TERRAFORM}: 12 seconds until running; booting a node counts toward the node group"),
    "ec2-instance-stop": Duration(30, "estimate: 20 to 60 seconds"),
    "ec2-image": Duration(180, "estimate: three minutes for a root volume of 8 GiB"),
    "ec2-instance-terminate": Duration(60, "estimate: 30 to 120 seconds"),
    "ec2-nat-gateway": Duration(105, f"{_TERRAFORM}: 1m24s to 2m4s, ten"),
    "ec2-nat-gateway-delete": Duration(75, f"{_TERRAFORM}: 1m5s, 1m19s, 1m34s"),
    "ec2-vpc-endpoint-interface": Duration(90, "estimate: one to two minutes"),
    "ec2-vpc-endpoint-gateway": Duration(6, "estimate: 5 to 10 seconds"),
    "ec2-vpc-endpoint-delete": Duration(
        60, "estimate; awsome-distributed-ai: endpoint interfaces block a security group for 5 to 10 minutes"
    ),
    "ec2-capacity-reservation": Duration(5, "estimate"),
    "autoscaling-group-delete": Duration(60, "estimate: termination of the instances"),
    "efs-file-system": Duration(6, f"{_TERRAFORM}: 6 to 12 seconds (turbot/steampipe-plugin-aws#426)"),
    "efs-file-system-update": Duration(5, "estimate: as creation"),
    "efs-file-system-delete": Duration(5, "estimate: as creation"),
    "efs-mount-target": Duration(
        90, f"{_TERRAFORM}: over a minute (turbot/steampipe-plugin-aws#426); EFS user guide: up to 90 seconds"
    ),
    "efs-mount-target-delete": Duration(30, "estimate: 20 to 60 seconds"),
    "efs-backup-policy": Duration(5, "estimate: state ENABLING in the EFS API"),
    "efs-access-point": Duration(3, "estimate: under 10 seconds"),
    "iam-role": Duration(10, "estimate: IAM is eventually consistent; providers retry with a new role for about this long"),
    "kms-key": Duration(17, f"{_TERRAFORM}: 29 seconds, 12 of them in the provider (same log against moto)"),
    "s3-bucket": Duration(2, "estimate: Terraform logs, 2 to 3 seconds"),
}

CALLS = {
    ("iam", "CreateRole"): "iam-role",
    ("kms", "CreateKey"): "kms-key",
    ("s3", "CreateBucket"): "s3-bucket",
}
"""Operation whose response has no status -> kind of duration. The call itself is delayed."""


@dataclass
class _Transition:
    due: float
    target: Any
    attribute: str
    final: Any
    then: Callable[[], None] | None
    gate: Callable[[], bool] | None
    has_waited: bool = False
    """Whether the transition was due before its gate opened."""

    def is_due(self, moment: float) -> bool:
        if self.due > moment:
            return False
        if self.gate is None or self.gate():
            return True
        self.has_waited = True
        return False

    def run(self) -> None:
        _set(self.target, self.attribute, self.final)
        if self.then is not None:
            self.then()


now: Callable[[], float] = time.monotonic
"""Clock function. Tests replace it."""
_factor = 0.0
_only: frozenset[str] = frozenset()
"""Kinds of durations that the factor applies to; empty means all."""
_pending: list[_Transition] = []
_lock = threading.RLock()
_settling_at: float | None = None
_thread = threading.local()


def factor() -> float:
    return _factor


def set_factor(value: float, only: Iterable[str] = ()) -> None:
    """Set the factor for transitions scheduled from now on. With `only`, all other kinds take no time."""
    if value < 0:
        raise ValueError(f"the delay factor must be at least 0 (got {value})")
    if unknown := sorted({*only} - DURATIONS.keys()):
        raise ValueError(f"no such durations: {', '.join(unknown)}")
    global _factor, _only
    _factor, _only = value, frozenset(only)


def seconds(kind: str) -> float:
    """Return the duration of this kind at the current factor."""
    return DURATIONS[kind].seconds * _factor if not _only or kind in _only else 0.0


def schedule(
    target: Any,
    attribute: str,
    pending: Any,
    final: Any,
    kind: str,
    then: Callable[[], None] | None = None,
    gate: Callable[[], bool] | None = None,
) -> None:
    """Set an attribute or dict key to `pending` now and to `final` after the duration; then call `then`.

    With a gate, the transition also waits until the gate is open, for example until a realizer is done.

    Values become final at the next request or later, even with factor 0: create calls return CREATING, as on AWS.
    A new transition of the same attribute replaces the pending one, as when a resource is deleted during its creation.
    Transitions that `then` schedules start at the time when their predecessor was due, not when a client polls.
    """
    with _lock:
        _drop(target, attribute)
        _set(target, attribute, pending)
        started = _settling_at if _settling_at is not None else now()
        _pending.append(_Transition(started + seconds(kind), target, attribute, final, then, gate))


def settle() -> None:
    """Complete all due transitions, in the order in which they became due.

    The gateway calls this before every request.
    """
    global _settling_at
    with _lock:
        moment = now()
        while due := [transition for transition in _pending if transition.is_due(moment)]:
            first = min(due, key=lambda transition: transition.due)
            _pending.remove(first)
            _settling_at = moment if first.has_waited else first.due
            try:
                first.run()
            finally:
                _settling_at = None


def cancel(target: Any) -> None:
    """Drop the pending transitions of a deleted object."""
    with _lock:
        _pending[:] = [transition for transition in _pending if transition.target is not target]


def take(kind: str) -> None:
    """Delay the current call's response by this kind's duration, without blocking other calls."""
    _thread.pause = getattr(_thread, "pause", 0.0) + seconds(kind)


def take_call(service: str, operation: str) -> None:
    """Delay the response of a successful call, if its operation has a duration."""
    if (service, operation) in CALLS:
        take(CALLS[(service, operation)])


def taken() -> float:
    """Return the total delay of the current call and reset it to 0."""
    pause: float = getattr(_thread, "pause", 0.0)
    _thread.pause = 0.0
    return pause


@patching.on_reset
def _forget_all() -> None:
    with _lock:
        _pending.clear()


def _drop(target: Any, attribute: str) -> None:
    _pending[:] = [item for item in _pending if not (item.target is target and item.attribute == attribute)]


def _set(target: Any, attribute: str, value: Any) -> None:
    if isinstance(target, dict):
        target[attribute] = value
    else:
        setattr(target, attribute, value)
