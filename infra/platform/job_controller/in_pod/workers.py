"""Concern: the StatefulSet of the workers of a `standalone` job. Kubernetes would keep the StatefulSet after the
launcher has ended."""

from collections.abc import Mapping
from typing import Any

from .actions import Action, Change
from .api import build_resource_path
from .job import ManagedJob, is_deleted

STATEFUL_SET = "apis/apps/v1/namespaces/{}/statefulsets/{}"


def decide_cleanup(job: ManagedJob) -> list[Action]:
    """Return the action that ends the workers of a job that has ended, unless its `cleanPodPolicy` is None.

    The StatefulSet may already belong to the next run of the job: if the main object is being deleted, or if it ended before
    the StatefulSet was created, because the watch has not delivered the deletion yet. If the StatefulSet itself has been
    replaced, the API server rejects its former resource version.
    """
    if job.verdict is None or is_deleted(job.main) or not job.policy or job.policy.get("cleanPodPolicy") == "None":
        return []
    metadata = job.workers_set["metadata"] if job.workers_set else {}
    if metadata.get("creationTimestamp", "") > job.verdict[1].get("lastTransitionTime", ""):
        return []
    return scale_workers(job, 0, {"metadata": {"resourceVersion": metadata.get("resourceVersion")}})


def scale_workers(job: ManagedJob, workers: int, condition: Mapping[str, Any] | None = None) -> list[Action]:
    """Return the action that starts or ends all workers; none if they have already been started or ended."""
    workers_set = job.workers_set
    if workers_set is None or bool(workers_set["spec"].get("replicas")) == bool(workers):
        return []
    path = build_resource_path(STATEFUL_SET, job.namespace, workers_set["metadata"]["name"])
    return [Change(path, {**(condition or {}), "spec": {"replicas": workers}})]
