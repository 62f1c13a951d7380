"""Parts of objects that the controller reads. It keeps copies of nothing else: users choose the size of the rest, such as
environment variables and annotations, and a namespace may have thousands of pods.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from infra.health.faults import AGENT_CONDITIONS, READY
from infra.naming import (
    COMPLETION_INDEX,
    GPU_RESOURCE,
    JOB_LABEL,
    LAUNCHER_LABEL,
    MPI_JOB_LABEL,
    MPI_ROLE_LABEL,
    POLICY_ANNOTATION,
    QUEUE_LABEL,
    ROLE_LABEL,
    TAKEN_OUT_ANNOTATION,
)

from .api import Object

LABELS = (JOB_LABEL, MPI_JOB_LABEL, ROLE_LABEL, MPI_ROLE_LABEL, LAUNCHER_LABEL, QUEUE_LABEL, COMPLETION_INDEX)
METADATA = ("name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "ownerReferences", "resourceVersion")
JOB_STATUS = ("conditions", "startTime", "completionTime", "failed", "replicaStatuses")
POD_CONDITIONS = ("PodScheduled", READY, "DisruptionTarget")
STATE = ("startedAt", "finishedAt", "exitCode", "reason")


def trim_job(job: Object) -> Object:
    """Trim a Job, an MPIJob or a StatefulSet."""
    spec = job["spec"]
    trimmed = _select(spec, ("suspend", "completionMode", "completions", "replicas"))
    trimmed |= _trim_template(spec)
    if "runPolicy" in spec:
        trimmed["runPolicy"] = _select(spec["runPolicy"], ("suspend",))
    if "mpiReplicaSpecs" in spec:
        workers = spec["mpiReplicaSpecs"].get("Worker")
        worker = {} if workers is None else {"Worker": {**_select(workers, ("replicas",)), **_trim_template(workers)}}
        trimmed["mpiReplicaSpecs"] = worker
    metadata = _trim_metadata(job)
    policy = _select(job["metadata"].get("annotations") or {}, (POLICY_ANNOTATION,))
    return {
        "metadata": {**metadata, **({"annotations": policy} if policy else {})},
        "spec": trimmed,
        "status": _select(job.get("status") or {}, JOB_STATUS),
    }


def _trim_template(spec: Object) -> Object:
    selector = spec.get("template", {}).get("spec", {}).get("nodeSelector")
    return {"template": {"spec": {"nodeSelector": selector}}} if selector else {}


def trim_pod(pod: Object) -> Object:
    spec, status = pod["spec"], pod.get("status", {})
    trimmed: dict[str, Any] = {"nodeName": spec.get("nodeName", ""), "containers": _trim_gpus(spec)}
    trimmed |= _select(spec, ("terminationGracePeriodSeconds",))
    about = _select(status, ("phase", "startTime", "reason"))
    about["conditions"] = [condition for condition in status.get("conditions") or () if condition["type"] in POD_CONDITIONS]
    for kind in ("initContainerStatuses", "containerStatuses"):
        if status.get(kind):
            about[kind] = [_trim_container_status(container) for container in status[kind]]
    return {"metadata": _trim_metadata(pod), "spec": trimmed, "status": about}


def _trim_gpus(spec: Object) -> list[Object]:
    limits = ((container.get("resources") or {}).get("limits") or {} for container in spec.get("containers", ()))
    return [{"resources": {"limits": {GPU_RESOURCE: limit[GPU_RESOURCE]}}} for limit in limits if GPU_RESOURCE in limit]


def _trim_container_status(container: Object) -> Object:
    states = {
        when: {kind: _select(state or {}, STATE) for kind, state in container[when].items()}
        for when in ("state", "lastState")
        if container.get(when)
    }
    return {"name": container["name"], **states}


def _trim_metadata(item: Object) -> Object:
    metadata = item["metadata"]
    labels = _select(metadata.get("labels") or {}, LABELS)
    return {**_select(metadata, METADATA), **({"labels": labels} if labels else {})}


def _select(values: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    return {key: values[key] for key in keys if key in values}


def trim_workload(workload: Object) -> Object:
    """Return only the parts of Kueue's Workload that show whether the queue has stopped the job."""
    keys = ("name", "namespace", "uid", "ownerReferences", "resourceVersion")
    metadata = {key: workload["metadata"][key] for key in keys if key in workload["metadata"]}
    status = {"conditions": workload.get("status", {}).get("conditions") or []}
    return {"metadata": metadata, "spec": {"active": workload["spec"].get("active", True)}, "status": status}


def trim_node(node: Object) -> Object:
    metadata, spec, status = node["metadata"], node["spec"], node.get("status", {})
    trimmed = {key: metadata[key] for key in ("name", "uid", "labels", "creationTimestamp", "resourceVersion") if key in metadata}
    marks = {key: text for key, text in (metadata.get("annotations") or {}).items() if key == TAKEN_OUT_ANNOTATION}
    about = {"unschedulable": spec.get("unschedulable", False), "providerID": spec.get("providerID", "")}
    conditions = [condition for condition in status.get("conditions", ()) if condition["type"] in (READY, *AGENT_CONDITIONS)]
    usable = {key: amount for key, amount in (status.get("allocatable") or {}).items() if key == GPU_RESOURCE}
    where = {key: status[key] for key in ("addresses", "daemonEndpoints") if key in status}
    return {
        "metadata": {**trimmed, "annotations": marks},
        "spec": about,
        "status": {"conditions": conditions, "allocatable": usable, **where},
    }
