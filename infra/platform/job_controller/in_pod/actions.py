"""Actions of the controller on the objects of jobs. All actions are idempotent."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .api import CONFLICT, MERGE, NOT_FOUND, STRATEGIC, Api, ApiError, Object, build_resource_path


@dataclass(frozen=True)
class DeletePod:
    """Delete a pod unless another pod has replaced it."""

    namespace: str
    name: str
    uid: str
    seconds: int | None
    """Grace period in seconds; None for the pod's own grace period."""

    @classmethod
    def for_pod(cls, pod: Object, seconds: int | None) -> "DeletePod":
        metadata = pod["metadata"]
        return cls(metadata["namespace"], metadata["name"], metadata["uid"], seconds)

    def perform(self, api: Api, now: str) -> None:
        options: dict[str, Any] = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": self.uid}}
        if self.seconds is not None:
            options["gracePeriodSeconds"] = self.seconds
        send_if_exists(api, "DELETE", build_resource_path("api/v1/namespaces/{}/pods/{}", self.namespace, self.name), options)


@dataclass(frozen=True)
class FailJob:
    """Fail a batch Job with the reason of this controller.

    If a Job has the condition FailureTarget, Kubernetes ends its pods, then copies the reason to the condition Failed.
    https://kubernetes.io/docs/concepts/workloads/controllers/job/#termination-of-job-pods
    """

    namespace: str
    name: str
    reason: str
    message: str
    was_started: bool
    """False for a Job that has been suspended since its creation. The API server rejects the end of a Job without a
    start time.
    """

    def perform(self, api: Api, now: str) -> None:
        condition = {"type": "FailureTarget", "status": "True", "reason": self.reason, "message": self.message}
        times = {"lastTransitionTime": now, "lastProbeTime": now}
        start = {} if self.was_started else {"startTime": now}
        body = {"status": {"conditions": [{**condition, **times}], **start}}
        path = build_resource_path("apis/batch/v1/namespaces/{}/jobs/{}/status", self.namespace, self.name)
        send_if_exists(api, "PATCH", path, body, STRATEGIC)


@dataclass(frozen=True)
class Change:
    """Merge values into an object."""

    path: str
    values: Mapping[str, Any]

    def perform(self, api: Api, now: str) -> None:
        send_if_exists(api, "PATCH", self.path, dict(self.values), MERGE)


@dataclass(frozen=True)
class Report:
    """Create an event about a job. The event's name is derived from what happened, so the event is created only once."""

    name: str
    about: Mapping[str, str]
    """Reference to the job's main object."""
    reason: str
    message: str

    def perform(self, api: Api, now: str) -> None:
        namespace = self.about["namespace"]
        body = {
            **{"apiVersion": "v1", "kind": "Event", "metadata": {"name": self.name, "namespace": namespace}},
            **{"involvedObject": dict(self.about), "source": {"component": "gpumpi-job-controller"}},
            **{"type": "Warning", "reason": self.reason, "message": self.message},
            **{"firstTimestamp": now, "lastTimestamp": now, "count": 1},
        }
        with contextlib.suppress(ApiError):  # an exhausted quota for events must not keep the job from restarting
            api.call("POST", build_resource_path("api/v1/namespaces/{}/events", namespace), body=body)


Action = DeletePod | FailJob | Change | Report


def send_if_exists(api: Api, method: str, path: str, body: dict[str, Any], kind: str = "") -> bool:
    """Send a request. Returns False if the object no longer exists or has been replaced."""
    try:
        api.call(method, path, body=body, kind=kind)
    except ApiError as error:
        if error.status not in (CONFLICT, NOT_FOUND):
            raise
        return False
    return True
