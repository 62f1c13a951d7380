"""Emulated durations of AWS operations.

Each is AWS's duration times a factor: 0 (default) for no delay, 1 for AWS's speed, 1/60 to shorten a minute to a
second.
"""

import threading
import time
from bisect import insort
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from localcloud import problems
from localcloud.aws import patching


@dataclass(frozen=True)
class Duration:
    seconds: float
    source: str


_TERRAFORM = "public logs of terraform apply and destroy"

DURATIONS: dict[str, Duration] = {
    "eks-cluster": Duration(
        540, f"EKS: 9 minutes or less on average (2021-03); {_TERRAFORM}: 6m42s to 9m24s (five values from 2022 to 2026)"
    ),
    "eks-cluster-update": Duration(120, "estimate: one to three minutes to change endpoint access or logging"),
    "eks-cluster-version-update": Duration(600, "EKS user guide: an update takes several minutes"),
    "eks-cluster-delete": Duration(165, f"{_TERRAFORM}: 2m30s, 2m31s, 3m48s"),
    "eks-node-group": Duration(
        120, f"{_TERRAFORM}: 1m47s to 2m10s (six values; DevopsArtFactory/terraform-provisioning#46, #47)"
    ),
    "eks-node-group-update": Duration(60, "estimate: configuration update without new instances"),
    "eks-node-group-version-update": Duration(120, "estimate, same as eks-node-group: until an update's new nodes are Ready"),
    "eks-node-drained": Duration(60, "EKS user guide: an update waits 60 seconds after the last pod of a node was evicted"),
    "eks-pod-eviction": Duration(
        900, "EKS user guide: time limit for evicting the pods of a node (at least 2 minutes with any factor)"
    ),
    "eks-node-group-delete": Duration(375, f"{_TERRAFORM}: 4m12s, 6m19s, 6m21s, 8m21s (also gruntwork-io/cloud-nuke#339)"),
    "eks-addon": Duration(25, f"{_TERRAFORM}: 14 to 66 seconds, most often 24"),
    "eks-addon-delete": Duration(10, f"{_TERRAFORM}: 9 seconds"),
    "ec2-instance": Duration(12, f"{_TERRAFORM}: 12 seconds until running; booting a node counts toward the node group"),
    "ec2-instance-stop": Duration(30, "estimate: 20 to 60 seconds"),
    "ec2-image": Duration(180, "estimate: three minutes for a root volume of 8 GiB"),
    "ec2-instance-terminate": Duration(60, "estimate: 30 to 120 seconds"),
    "ec2-nat-gateway": Duration(105, f"{_TERRAFORM}: 1m24s to 2m4s (ten values)"),
    "ec2-nat-gateway-delete": Duration(75, f"{_TERRAFORM}: 1m5s, 1m19s, 1m34s"),
    "ec2-vpc-endpoint-interface": Duration(90, "estimate: one to two minutes"),
    "ec2-vpc-endpoint-gateway": Duration(6, "estimate: 5 to 10 seconds"),
    "ec2-vpc-endpoint-delete": Duration(
        60, "estimate; awsome-distributed-ai: endpoint interfaces block a security group for 5 to 10 minutes"
    ),
    "ec2-capacity-reservation": Duration(5, "estimate"),
    "ec2-capacity-block-payment": Duration(60, "estimate; EC2 user guide: up to 12 hours"),
    "autoscaling-group-delete": Duration(60, "estimate: time to terminate the instances"),
    "efs-file-system": Duration(6, f"{_TERRAFORM}: 6 to 12 seconds (turbot/steampipe-plugin-aws#426)"),
    "efs-file-system-update": Duration(5, "estimate: same as creation"),
    "efs-file-system-delete": Duration(5, "estimate: same as creation"),
    "efs-mount-target": Duration(
        90, f"{_TERRAFORM}: over a minute (turbot/steampipe-plugin-aws#426); EFS user guide: up to 90 seconds"
    ),
    "efs-mount-target-delete": Duration(30, "estimate: 20 to 60 seconds"),
    "efs-backup-policy": Duration(5, "estimate: the EFS API has a state ENABLING"),
    "efs-access-point": Duration(3, "estimate: under 10 seconds"),
    "fsx-file-system": Duration(
        360, f"{_TERRAFORM}: 3m20s to 6m0s (turbot/steampipe-plugin-aws#2113, #906); tutorials: about 10 minutes"
    ),
    "fsx-file-system-update": Duration(
        60, "estimate; increasing the capacity takes minutes, and optimizing the storage then takes hours"
    ),
    "fsx-file-system-delete": Duration(300, "estimate: same as creation"),
    "fsx-data-repository-association": Duration(600, "public logs: over 10 minutes (aws-samples/aws-hpc-tutorials#289)"),
    "fsx-data-repository-association-update": Duration(60, "estimate"),
    "fsx-data-repository-association-delete": Duration(120, "estimate"),
    "iam-role": Duration(
        10, "estimate: IAM is eventually consistent; providers retry calls that use a new role for about this long"
    ),
    "logs-late-delivery": Duration(60, "estimate: EKS delivers the last audit logs up to minutes after a cluster's deletion"),
    "kms-key": Duration(17, f"{_TERRAFORM}: 29 seconds, minus 12 for the provider itself (same log, against moto)"),
    "s3-bucket": Duration(2, "estimate; Terraform logs: 2 to 3 seconds"),
}

CALLS = {
    ("iam", "CreateRole"): "iam-role",
    ("kms", "CreateKey"): "kms-key",
    ("s3", "CreateBucket"): "s3-bucket",
}
"""Maps an operation whose response contains no status to the kind of duration. The response itself is delayed."""


Fail = Callable[[str], None]
"""Function that takes a reason, and sets the state in which AWS leaves a resource after a failed operation."""


@dataclass(eq=False)
class _Transition:
    due: float
    target: Any
    attribute: str
    final: Any
    operation: str
    then: Callable[[], None] | None
    gate: Callable[[], bool] | None
    fail: Fail | None
    has_waited: bool = False
    """Whether the transition became due while its gate was closed."""
    error: Exception | None = None
    """Exception that the gate raised."""

    def is_due(self, moment: float) -> bool:
        if self.due > moment:
            return False
        self.error = None
        try:
            if self.gate is None or self.gate():
                return True
        except Exception as error:
            self.error = error
            return True
        self.has_waited = True
        return False

    def run(self) -> None:
        """Enter the final state. If the gate or a callback raised an exception, only this operation fails."""
        try:
            if self.error is not None:
                raise self.error
            _set_member(self.target, self.attribute, self.final() if callable(self.final) else self.final)
            if self.then is not None:
                self.then()
        except Exception as error:
            problem = problems.report_problem(self.operation, error)
            if self.fail is not None:
                self._end(self.fail, problem)

    def _end(self, fail: Fail, problem: str) -> None:
        try:
            fail(problem)
        except Exception as error:
            problems.report_problem(f"reporting the failure of {self.operation}", error)


now: Callable[[], float] = time.monotonic
"""Clock function. Tests replace it."""
_factor = 0.0
_only: frozenset[str] = frozenset()
"""Kinds of durations to which the factor applies; empty means all."""
_pending: list[_Transition] = []
_lock = threading.RLock()
_before: list[Callable[[], None]] = []
"""Functions that `complete_due_transitions` calls first."""
_settling: tuple[float, str] | None = None
"""Due time and operation of the transition that `complete_due_transitions` is completing."""
_operation = ""
"""Operation that the gateway is handling, as `service.Operation`. The gateway's lock guards it."""
_thread = threading.local()


def get_factor() -> float:
    return _factor


def set_factor(value: float, only: Iterable[str] = ()) -> None:
    """Set the factor for transitions scheduled from now on. With `only`, the factor applies only to those kinds; other
    kinds take no time."""
    if value < 0:
        raise ValueError(f"the delay factor must be at least 0 (got {value})")
    if unknown := sorted({*only} - DURATIONS.keys()):
        raise ValueError(f"no such durations: {', '.join(unknown)}")
    global _factor, _only
    _factor, _only = value, frozenset(only)


def compute_scaled_seconds(kind: str | float) -> float:
    """Return the scaled duration of a kind, or of an operation that takes this number of seconds on AWS."""
    if not isinstance(kind, str):
        return kind * _factor if not _only else 0.0
    return DURATIONS[kind].seconds * _factor if not _only or kind in _only else 0.0


def schedule(
    target: Any,
    attribute: str,
    pending: Any,
    final: Any,
    kind: str | float,
    then: Callable[[], None] | None = None,
    gate: Callable[[], bool] | None = None,
    fail: Fail | None = None,
) -> None:
    """Set an attribute or dict key to `pending` now and to `final` after the duration; then call `then`.

    `kind` is a kind in the table, or the number of seconds that the operation takes on AWS.

    If `final` is a function, it checks the result of the operation and returns the state to enter. With a gate, the
    transition also waits until the gate is open, for example until a realizer is done. If `gate`, `final` or `then`
    raises an exception, the operation fails: `fail` sets the state in which AWS leaves the resource, so that clients
    stop waiting for it. Requests of other clients are not affected.

    Even with factor 0, values become final only at the next request or later, so create calls return CREATING, as on
    AWS. A new transition of the same attribute replaces the pending one, for example when a resource is deleted during
    its creation. Transitions that `then` schedules start at the time when their predecessor was due, not when a client
    polls.
    """
    with _lock:
        _drop_pending(target, attribute)
        _set_member(target, attribute, pending)
        operation = _settling[1] if _settling is not None else _operation or str(kind)
        _pending.append(
            _Transition(get_current_time() + compute_scaled_seconds(kind), target, attribute, final, operation, then, gate, fail)
        )


def make_failure_handler(target: Any, attribute: str, state: Any) -> Fail:
    """Return a `fail` function that only sets the state, for resources that do not record a reason."""
    return lambda _: _set_member(target, attribute, state)


@contextmanager
def attribute_transitions(operation: str) -> Iterator[None]:
    """Attribute the transitions that are scheduled inside the block to an operation."""
    global _operation
    before, _operation = _operation, operation
    try:
        yield
    finally:
        _operation = before


def add_pre_transition_hook(action: Callable[[], None]) -> None:
    """Register a function that `complete_due_transitions` calls first. The function may schedule transitions."""
    _before.append(action)


def complete_due_transitions() -> None:
    """Complete all due transitions, in the order in which they became due. Raises nothing.

    The gateway calls this before every request. The request that triggers this must not fail because of another
    client's operation.
    """
    with _lock:
        for action in _before:
            _run_and_report_errors(action)
        moment = now()
        while due := sorted((transition for transition in _pending if transition.is_due(moment)), key=_get_due_time):
            _complete_transitions(due, moment)


def _complete_transitions(due: list[_Transition], moment: float) -> None:
    """Complete these transitions, and any due transitions that they schedule, in the order in which they became due.

    Each gate is checked again before its transition, because earlier transitions may have closed it. A transition whose
    gate opens in the meantime waits for the next round: with a thousand instances, checking all gates after each
    transition would take minutes.
    """
    global _settling
    scheduled = {*_pending}
    while due:
        first = due.pop(0)
        if first not in _pending or not first.is_due(moment):
            continue
        _pending.remove(first)
        _settling = moment if first.has_waited else first.due, first.operation
        try:
            first.run()
        finally:
            _settling = None
        for new in [transition for transition in _pending if transition not in scheduled]:
            scheduled.add(new)
            if new.is_due(moment):
                insort(due, new, key=_get_due_time)


def _get_due_time(transition: _Transition) -> float:
    return transition.due


def _run_and_report_errors(action: Callable[[], None]) -> None:
    try:
        action()
    except Exception as error:
        problems.report_problem("the calendar of the local AWS", error)


def get_current_time() -> float:
    """Return the due time of the transition that is being completed, or the current time if there is none."""
    return _settling[0] if _settling is not None else now()


def cancel_transitions(target: Any) -> None:
    """Drop the pending transitions of a deleted object."""
    with _lock:
        _pending[:] = [transition for transition in _pending if transition.target is not target]


def delay_response(kind: str) -> None:
    """Delay the current call's response by this kind's duration, without blocking other calls."""
    _thread.pause = getattr(_thread, "pause", 0.0) + compute_scaled_seconds(kind)


def delay_call_response(service: str, operation: str) -> None:
    """Delay the response of a successful call, if its operation has a duration."""
    if (service, operation) in CALLS:
        delay_response(CALLS[(service, operation)])


def pop_call_delay() -> float:
    """Return the total delay of the current call and reset it to 0."""
    pause: float = getattr(_thread, "pause", 0.0)
    _thread.pause = 0.0
    return pause


@patching.on_reset
def _reset_transitions() -> None:
    with _lock:
        _pending.clear()


def _drop_pending(target: Any, attribute: str) -> None:
    _pending[:] = [item for item in _pending if not (item.target is target and item.attribute == attribute)]


def _set_member(target: Any, attribute: str, value: Any) -> None:
    if isinstance(target, dict):
        target[attribute] = value
    else:
        setattr(target, attribute, value)
