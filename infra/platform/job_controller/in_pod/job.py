"""A job and its objects, from the controller's mirrors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from infra.health import documents, healing
from infra.health.repairs import parse_quantity
from infra.naming import (
    GPU_RESOURCE,
    JOB_LABEL,
    LAUNCHER_LABEL,
    MPI_JOB_LABEL,
    MPI_ROLE_LABEL,
    POLICY_ANNOTATION,
    POOL_LABEL,
    ROLE_LABEL,
)

from .api import Object
from .phases import INTERRUPTIONS, Phase, Signs

MOST_GPUS, PATTERN_LIMIT, POLICY_LIMIT = 10**4, 200, 10**4
"""The last two are numbers of characters: of `progress.pattern`, and of the annotation."""
POLICY_VERSION = 1
POLICY_FIELDS: Mapping[str, documents.Check] = {
    "version": documents.must_be_in((POLICY_VERSION,)),
    "pool": documents.is_text,
    "workers": documents.is_non_negative_integer,
    "cleanPodPolicy": documents.must_be_in(("None",)),
    "maxRestarts": documents.allow_none(documents.is_non_negative_integer),
    "noRetryExitCodes": documents.allow_none(documents.must_be_list(documents.is_integer)),
    "activeDeadlineSeconds": documents.allow_none(documents.is_non_negative_integer),
    "progress": documents.must_have_fields(
        {
            "pattern": lambda value: documents.is_text(value) and len(value) <= PATTERN_LIMIT,
            "within": lambda value: documents.is_non_negative_integer(value) and value > 0,
        }
    ),
    "hold": documents.must_have_fields({}, {"queue": documents.allow_none(documents.is_text)}),
}


def read_job_name(item: Object) -> str:
    return str(read_labels(item).get(JOB_LABEL) or read_labels(item).get(MPI_JOB_LABEL) or item["metadata"]["name"])


def read_labels(item: Object) -> Mapping[str, str]:
    return item["metadata"].get("labels") or {}


def read_conditions(item: Object) -> Mapping[str, Object]:
    """Return the conditions that are true, by type."""
    listed = (item.get("status") or {}).get("conditions") or ()
    return {condition["type"]: condition for condition in listed if condition.get("status") == "True"}


def read_role(pod: Object) -> str:
    return str(read_labels(pod).get(ROLE_LABEL) or read_labels(pod).get(MPI_ROLE_LABEL, ""))


def is_terminal(pod: Object) -> bool:
    return has_succeeded(pod) or has_failed(pod)


def has_failed(pod: Object) -> bool:
    return bool(pod["status"].get("phase") == "Failed")


def has_succeeded(pod: Object) -> bool:
    return bool(pod["status"].get("phase") == "Succeeded")


def is_deleted(item: Object) -> bool:
    return "deletionTimestamp" in item["metadata"]


def is_live(pod: Object) -> bool:
    """Return whether a pod has not ended and is not being deleted."""
    return not is_terminal(pod) and not is_deleted(pod)


def is_ready(pod: Object) -> bool:
    return "Ready" in read_conditions(pod)


@dataclass(frozen=True)
class ManagedJob:
    """One job with everything that belongs to it."""

    main: Object
    """MPIJob or Job; deleting it deletes the job."""
    pods: Sequence[Object] = ()
    launcher_job: Object | None = None
    """Job of the launcher. For `standalone` it is the main object."""
    setup: Object | None = None
    workers_set: Object | None = None
    """StatefulSet of the workers, if mpi-operator does not create them."""
    nodes: Mapping[str, Object] = field(default_factory=dict)
    workload: Object | None = None
    """Kueue's Workload of the main object."""

    @property
    def uid(self) -> str:
        return str(self.main["metadata"]["uid"])

    @property
    def name(self) -> str:
        return read_job_name(self.main)

    @property
    def namespace(self) -> str:
        return str(self.main["metadata"]["namespace"])

    @property
    def launcher(self) -> str:
        """Name of the job's launcher. MPIJobs that other tools created do not have a label with this name."""
        return str(read_labels(self.main).get(LAUNCHER_LABEL) or self.main["kind"].lower())

    def build_reference(self) -> dict[str, str]:
        """Return a reference to the main object, for events."""
        metadata, version = self.main["metadata"], "kubeflow.org/v2beta1" if self.is_mpi_job else "batch/v1"
        keys = ("name", "namespace", "uid")
        return {"apiVersion": version, "kind": self.main["kind"], **{key: metadata[key] for key in keys}}

    @property
    def is_mpi_job(self) -> bool:
        """Whether mpi-operator creates the pods."""
        return bool(self.main["kind"] == "MPIJob")

    @property
    def has_launcher(self) -> bool:
        """Whether a launcher pod starts the ranks, and the attempt ends with this pod. Otherwise the main object is a Job
        whose pods are the workers."""
        return bool(self.main["spec"].get("completionMode") != "Indexed")

    @property
    def is_admitted_in_parts(self) -> bool:
        """Whether the queue admits the launcher and the workers separately."""
        return self.has_launcher and not self.is_mpi_job

    @cached_property
    def policy(self) -> Mapping[str, Any]:
        """What the controller does for this job, without invalid fields; empty for jobs created by other tools."""
        document = self._policy_annotation
        if not isinstance(document, dict) or document.get("version") != POLICY_VERSION:
            return {}
        return {key: document[key] for key, check in POLICY_FIELDS.items() if key in document and check(document[key])}

    @property
    def ignored_parts_message(self) -> str:
        """Sentence about the parts of the annotation that the controller ignores because they are invalid; empty if
        there are none. Users can write the annotation."""
        document = self._policy_annotation
        fields = sorted(document.keys() & POLICY_FIELDS.keys() - self.policy.keys()) if isinstance(document, dict) else ["all"]
        if not fields or POLICY_ANNOTATION not in (self.main["metadata"].get("annotations") or {}):
            return ""
        return f"annotation {POLICY_ANNOTATION}: ignored because it is invalid: {', '.join(fields)}"

    @cached_property
    def _policy_annotation(self) -> Any:
        return documents.load_json((self.main["metadata"].get("annotations") or {}).get(POLICY_ANNOTATION), POLICY_LIMIT)

    @property
    def size(self) -> int:
        """Number of workers."""
        spec = self.main["spec"]
        if self.is_mpi_job:
            return int(spec["mpiReplicaSpecs"].get("Worker", {}).get("replicas", 0))
        if not self.has_launcher:
            return int(spec.get("completions", 1))
        return int(self.policy.get("workers") or (self.workers_set or {}).get("spec", {}).get("replicas", 0))

    @property
    def attempts_job(self) -> Object | None:
        """Job whose pods are the attempts, or None until mpi-operator has created it."""
        return self.launcher_job if self.is_mpi_job else self.main

    @property
    def is_suspended(self) -> bool:
        spec = self.main["spec"]
        return bool((spec.get("runPolicy") or {}).get("suspend") if self.is_mpi_job else spec.get("suspend"))

    @property
    def pool(self) -> str:
        """Name of the pool on whose nodes the workers run; empty if unknown."""
        spec = self.main["spec"]
        if self.is_mpi_job:
            owner = spec["mpiReplicaSpecs"].get("Worker", {})
        else:
            owner = (self.workers_set or {}).get("spec", {}) if self.has_launcher else spec
        selector = owner.get("template", {}).get("spec", {}).get("nodeSelector") or {}
        return str(self.policy.get("pool") or selector.get(POOL_LABEL, ""))

    @property
    def failures(self) -> int:
        """Number of failed pods that Kubernetes or mpi-operator counts."""
        status = self.main.get("status") or {}
        if self.is_mpi_job:
            status = (status.get("replicaStatuses") or {}).get("Launcher") or {}
        return int(status.get("failed") or 0)

    @cached_property
    def verdict(self) -> tuple[Phase, Object] | None:
        """Return `Succeeded` or `Failed` with its condition; None while the job has not ended."""
        current = read_conditions(self.main)
        for kind in ("Succeeded", "Complete"):
            if kind in current:
                return Phase.SUCCEEDED, current[kind]
        return (Phase.FAILED, current["Failed"]) if "Failed" in current else None

    @property
    def stop(self) -> Object | None:
        """Condition that explains why the queue has permanently stopped the job, because its pods did not start; None if it has
        not. https://kueue.sigs.k8s.io/docs/concepts/workload/#active
        """
        if self.workload is None or self.workload["spec"].get("active", True) or not self.is_suspended:
            return None
        evicted = read_conditions(self.workload).get("Evicted", {})
        why = " ".join(str(evicted.get("message") or "its workload is not active").split())
        return {**evicted, "message": f"the queue stopped it: {why}"}

    def collect_phase_signs(self, attempts: Sequence[Mapping[str, Any]] = ()) -> Signs:
        """Return what the objects, and the attempts in the job's record, show about the phase."""
        ended = {uid for attempt in attempts if attempt["outcome"] in INTERRUPTIONS for uid in attempt["pods"]}
        pods = [pod for pod in self.attempt_pods if pod["metadata"]["uid"] not in ended and not _is_lost_pod(pod)]
        return Signs(
            verdict=self.verdict[0] if self.verdict else None,
            is_deleted=is_deleted(self.main),
            is_in_setup=self.setup is not None and not read_conditions(self.setup).keys() & {"Complete", "Failed"},
            is_suspended=self.is_suspended,
            is_stopped=self.stop is not None,
            is_running=self._has_running_ranks(pods),
            was_interrupted=bool(ended or self.failures or any(map(_is_lost_pod, self.attempt_pods))),
        )

    def have_all_started(self, pods: Sequence[Object]) -> bool:
        """Return whether all pods of an attempt have started."""
        return len(pods) >= (1 if self.has_launcher else self.size) and all(map(read_start_time, pods))

    def _has_running_ranks(self, pods: Sequence[Object]) -> bool:
        """Return whether all ranks run, or have ended, in these pods of an attempt."""
        is_done = any(map(has_succeeded, pods))  # Kubernetes has not completed the job yet
        has_workers = not self.has_launcher or is_done or sum(map(is_ready, self.worker_pods)) >= self.size
        return has_workers and self.have_all_started(pods)

    @cached_property
    def worker_pods(self) -> list[Object]:
        return [pod for pod in self.pods if read_role(pod) == "worker"]

    @cached_property
    def attempt_pods(self) -> list[Object]:
        """Pods that end an attempt when they end, oldest first: the launcher's, or those of all workers."""
        of_attempt = "launcher" if self.has_launcher else "worker"
        return sorted(
            (pod for pod in self.pods if read_role(pod) == of_attempt), key=lambda pod: pod["metadata"]["creationTimestamp"]
        )


def _is_lost_pod(pod: Object) -> bool:
    return has_failed(pod) or is_deleted(pod)


def read_exit_codes(pod: Object) -> list[dict[str, Any]]:
    """Return the exit codes of a pod's containers that ended with an error."""
    ends = []
    status = pod["status"]
    for container in [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]:
        for when in ("state", "lastState"):
            ended = container.get(when, {}).get("terminated")
            if ended and ended.get("exitCode"):
                code, reason = ended["exitCode"], ended.get("reason", "")
                about = {"pod": pod["metadata"]["name"], "container": container["name"], "code": code, "reason": reason}
                ends.append({**about, "at": ended.get("finishedAt") or ""})
    return ends


def read_end_time(pod: Object) -> str:
    """Return when the last container of a pod ended; empty if unknown."""
    times = [state.get("terminated", {}).get("finishedAt") for state in _list_container_states(pod)]
    return max(filter(None, times), default="")


def read_start_time(pod: Object) -> str:
    """Return when the containers of a pod started; empty if they have not."""
    times = [(state.get("running") or state.get("terminated") or {}).get("startedAt") for state in _list_container_states(pod)]
    return max(filter(None, times), default="")


def _list_container_states(pod: Object) -> list[Object]:
    return [container.get("state", {}) for container in pod["status"].get("containerStatuses") or ()]


def count_gpus(pod: Object) -> int:
    limits = [container.get("resources", {}).get("limits", {}) for container in pod["spec"].get("containers", ())]
    return min(sum(parse_quantity(limit.get(GPU_RESOURCE, 0)) for limit in limits), MOST_GPUS)


def explain_cut_off_pod(pod: Object, nodes: Mapping[str, Object]) -> str:
    """Return why no kubelet can end a pod that may still be running; empty if a kubelet can, or if none has started the pod."""
    return explain_missing_kubelet(pod, nodes) if pod["status"].get("startTime") else ""


def explain_missing_kubelet(pod: Object, nodes: Mapping[str, Object]) -> str:
    """Return why no kubelet can end a pod; empty if a kubelet can, or if the nodes have not been read yet."""
    name, node = pod["metadata"]["name"], pod["spec"].get("nodeName", "")
    if not node or not nodes:
        return ""
    if node not in nodes:
        return f"{name}: its node {node} is gone"
    return f"{name}: its node {node} is not ready" if is_silent(nodes[node]) else ""


def is_silent(node: Object) -> bool:
    """Return whether the node's kubelet is silent: Kubernetes reports the node's state as unknown, or the controller has
    noticed it earlier (`silence.py`).
    """
    listed = node.get("status", {}).get("conditions") or ()
    return healing.is_kubelet_silent(node) or any(
        (condition["type"], condition["status"]) == ("Ready", "Unknown") for condition in listed
    )


def explain_disruption(pod: Object, nodes: Mapping[str, Object]) -> str:
    """Return why a pod is or will be lost through no fault of its program; empty if it is not lost.

    https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions
    """
    name, node = pod["metadata"]["name"], pod["spec"].get("nodeName", "")
    if condition := read_conditions(pod).get("DisruptionTarget"):
        message = " ".join(str(condition.get("message", "")).split())
        return f"{name}: {condition.get('reason', 'DisruptionTarget')}{': ' + message if message else ''}"
    if node and nodes and node not in nodes and pod["status"].get("startTime"):
        return f"{name}: its node {node} is gone"
    if node in nodes and "Ready" not in read_conditions(nodes[node]):
        return f"{name}: its node {node} is not ready"
    if node in nodes and (fault := healing.find_drained_nodes([nodes[node]]).get(node)):
        return f"{name}: its node {node} was taken out of service: {fault}"
    return ""
