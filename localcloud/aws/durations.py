"""How long AWS takes, times a factor: 0 (the default) as fast as can be, 1 as slow as AWS, 1/60 a minute in a second."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from localcloud.aws import patching


@dataclass(frozen=True)
class Duration:
    seconds: float
    source: str


DURATIONS: dict[str, Duration] = {
    "eks-cluster": Duration(540, "EKS: 9 minutes or less on average (What's New 2021-03); Terraform logs of 2024: 8m33s"),
    "eks-cluster-update": Duration(120, "estimate: Terraform logs of endpoint and logging updates, 1-3 minutes"),
    "eks-cluster-version-update": Duration(600, "estimate: EKS user guide, an update takes several minutes"),
    "eks-cluster-delete": Duration(180, "estimate: Terraform logs, 2-4 minutes"),
    "eks-node-group": Duration(150, "Terraform logs of managed node groups, 2-4 minutes with the instances' boot"),
    "eks-node-group-update": Duration(60, "estimate: a configuration update without new instances"),
    "eks-node-group-version-update": Duration(600, "estimate: surge, drain and termination of the nodes, one batch"),
    "eks-node-group-delete": Duration(300, "gruntwork-io/cloud-nuke#339: up to 10 minutes with 4 instances"),
    "eks-addon": Duration(30, "estimate: Terraform logs, 10-60 seconds"),
    "eks-addon-delete": Duration(15, "estimate: Terraform logs, 10-20 seconds"),
    "ec2-instance": Duration(30, "figures of ParallelCluster: running within 30-60 seconds"),
    "ec2-instance-terminate": Duration(60, "estimate: Terraform logs, 30-120 seconds"),
    "ec2-nat-gateway": Duration(110, "Terraform logs, 1m35s to 2m"),
    "ec2-nat-gateway-delete": Duration(60, "Terraform logs, 40-60 seconds"),
    "ec2-vpc-endpoint-interface": Duration(90, "estimate: Terraform logs, 1-2 minutes"),
    "ec2-vpc-endpoint-gateway": Duration(6, "Terraform logs, 5-10 seconds"),
    "ec2-vpc-endpoint-delete": Duration(60, "awsome-distributed-ai: interfaces of endpoints hold a security group for minutes"),
    "ec2-capacity-reservation": Duration(5, "estimate"),
    "autoscaling-group-delete": Duration(60, "estimate: the instances' termination"),
    "efs-file-system": Duration(5, "Terraform logs, 5-10 seconds"),
    "efs-file-system-update": Duration(5, "estimate: as creation"),
    "efs-file-system-delete": Duration(5, "Terraform logs, 5-10 seconds"),
    "efs-mount-target": Duration(90, "EFS user guide and Terraform logs, 80-90 seconds"),
    "efs-mount-target-delete": Duration(30, "Terraform logs, 20-60 seconds"),
    "efs-backup-policy": Duration(5, "estimate: the state ENABLING of the EFS API"),
    "efs-access-point": Duration(3, "estimate: Terraform logs, under 10 seconds"),
}


@dataclass
class _Transition:
    due: float
    target: Any
    attribute: str
    final: Any
    then: Callable[[], None] | None

    def run(self) -> None:
        _set(self.target, self.attribute, self.final)
        if self.then is not None:
            self.then()


now: Callable[[], float] = time.monotonic
"""The clock; a test sets its own."""
_factor = 0.0
_pending: list[_Transition] = []
_lock = threading.RLock()
_settling_at: float | None = None
_thread = threading.local()


def factor() -> float:
    return _factor


def set_factor(value: float) -> None:
    """Applies to what is scheduled from now on."""
    if value < 0:
        raise ValueError(f"a delay factor is 0 or more, not {value}")
    global _factor
    _factor = value


def seconds(kind: str) -> float:
    """How long this kind takes here and now."""
    return DURATIONS[kind].seconds * _factor


def schedule(target: Any, attribute: str, pending: Any, final: Any, kind: str, then: Callable[[], None] | None = None) -> None:
    """Set the attribute (of an object, or key of a dict) to its pending value now and the final one when due; then call `then`.

    Nothing becomes final before the next request, even with a factor of 0: the answer to a create call says CREATING, as AWS's.
    A new schedule for the same attribute replaces the one still pending (deleted while being created). What `then` schedules
    starts when its predecessor was due, not when somebody asked.
    """
    with _lock:
        _drop(target, attribute)
        _set(target, attribute, pending)
        started = _settling_at if _settling_at is not None else now()
        _pending.append(_Transition(started + seconds(kind), target, attribute, final, then))


def settle() -> None:
    """Make final what is due, in the order in which it became due. Runs before every request."""
    global _settling_at
    with _lock:
        moment = now()
        while due := [transition for transition in _pending if transition.due <= moment]:
            first = min(due, key=lambda transition: transition.due)
            _pending.remove(first)
            _settling_at = first.due
            try:
                first.run()
            finally:
                _settling_at = None


def cancel(target: Any) -> None:
    """Forget what is pending for an object that is gone."""
    with _lock:
        _pending[:] = [transition for transition in _pending if transition.target is not target]


def take(kind: str) -> None:
    """Let the current call take its time: it is answered that much later, while other calls go on."""
    _thread.pause = getattr(_thread, "pause", 0.0) + seconds(kind)


def taken() -> float:
    """What `take` added up for the current call; starts again at 0."""
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
