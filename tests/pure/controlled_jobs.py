"""Jobs as the job controller sees them, for tests of its decisions."""

import json
from typing import Any

from infra.naming import JOB_LABEL, LAUNCHER_LABEL, POLICY_ANNOTATION, ROLE_LABEL
from infra.platform.job_controller.in_pod import reconcile, record
from infra.platform.job_controller.in_pod import workers as workers_end
from infra.platform.job_controller.in_pod.actions import Action
from infra.platform.job_controller.in_pod.job import ManagedJob
from infra.platform.job_controller.in_pod.progress import Seen
from infra.platform.job_controller.in_pod.record import Record
from infra.platform.job_controller.in_pod.stacks import Dump

Object = dict[str, Any]
NODES = ("one", "two", "three")


def make_timestamp(second: int) -> str:
    """Return the timestamp `second` seconds after the job's creation."""
    return f"2026-11-23T12:{second // 60:02}:{second % 60:02}Z"


def make_node(name: str, *, ready: bool = True) -> Object:
    status = "True" if ready else "Unknown"
    labels = {"node.kubernetes.io/instance-type": "p5.48xlarge", "topology.kubernetes.io/zone": "us-west-2a"}
    labels["gpumpi.io/pool"] = "train"
    return {"metadata": {"name": name, "labels": labels}, "status": {"conditions": [{"type": "Ready", "status": status}]}}


def make_pod(
    name: str,
    role: str,
    *,
    uid: str = "",
    node: str = "one",
    since: int = 10,
    phase: str = "Running",
    code: int | None = None,
    reason: str = "Error",
    until: int = 0,
    target: str = "",
    deleting: bool = False,
    gpus: int = 8,
) -> Object:
    """Return a pod. `code` is the exit code of the pod's container; `target` is the reason in the pod's DisruptionTarget
    condition.
    """
    state: Object = {"running": {"startedAt": make_timestamp(since + 5)}}
    if code is not None or phase in ("Succeeded", "Failed"):
        ended = {
            "exitCode": code or 0,
            "startedAt": make_timestamp(since + 5),
            "finishedAt": make_timestamp(until),
            "reason": reason,
        }
        state = {"terminated": ended}
    conditions = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": make_timestamp(since)}]
    conditions += [{"type": "Ready", "status": "True"}] if phase == "Running" else []
    conditions += [{"type": "DisruptionTarget", "status": "True", "reason": target}] if target else []
    status = {"phase": phase, "startTime": make_timestamp(since), "conditions": conditions}
    return {
        "metadata": {
            "name": name,
            "namespace": "mpi-jobs",
            "uid": uid or f"uid-{name}",
            "labels": {JOB_LABEL: "train", ROLE_LABEL: role},
            "creationTimestamp": make_timestamp(since),
            **({"deletionTimestamp": make_timestamp(since + 1)} if deleting else {}),
        },
        "spec": {"nodeName": node, "containers": [{"name": role, "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}]},
        "status": {**status, "containerStatuses": [{"name": role, "state": state}]},
    }


def make_workers(number: int = 2, **more: Any) -> list[Object]:
    return [make_pod(f"train-worker-{index}", "worker", node=NODES[index], **more) for index in range(number)]


def make_launcher(attempt: int = 1, **more: Any) -> Object:
    return make_pod(f"train-launcher-{attempt}", "launcher", **{"since": 10 * attempt, "gpus": 0, **more})


def make_main_object(launcher: str = "mpijob", policy: Object | None = None, **status: Any) -> Object:
    """Return the main object of a job with two workers."""
    fields = {"version": 1, "maxRestarts": 2, "workers": 2, **(policy or {})}
    metadata = {
        "name": "train-launcher" if launcher == "standalone" else "train",
        "namespace": "mpi-jobs",
        "uid": "uid-train",
        "creationTimestamp": make_timestamp(0),
        "labels": {JOB_LABEL: "train", ROLE_LABEL: "job", LAUNCHER_LABEL: launcher},
        "annotations": {POLICY_ANNOTATION: json.dumps(fields)},
    }
    spec: Object = {"mpiReplicaSpecs": {"Worker": {"replicas": 2}}} if launcher == "mpijob" else {}
    if launcher == "torchrun":
        spec = {"completionMode": "Indexed", "completions": 2}
    return {"kind": "MPIJob" if launcher == "mpijob" else "Job", "metadata": metadata, "spec": spec, "status": status}


LAUNCHER_JOB: Object = {"kind": "Job", "metadata": {"name": "train-launcher", "uid": "uid-launcher"}, "spec": {}}


def make_job(main: Object, pods: list[Object], *, lost: str = "", setup: Object | None = None, **more: Any) -> ManagedJob:
    """Return a job whose nodes are all ready except `lost`."""
    nodes = {name: make_node(name, ready=name != lost) for name in NODES}
    child = LAUNCHER_JOB if main["kind"] == "MPIJob" else None
    return ManagedJob(main, pods, child, setup, more.get("workers_set"), nodes)


def make_condition(kind: str, second: int, message: str = "") -> Object:
    return {"type": kind, "status": "True", "lastTransitionTime": make_timestamp(second), "message": message}


class Controlled:
    """Job controller for one job. The controller keeps the job's record between rounds."""

    def __init__(self) -> None:
        self.record: Record | None = None
        self.second = 0

    def run_round(
        self, job: ManagedJob, second: int, *, alive: bool = True, seen: Seen | None = None, dump: Dump | None = None
    ) -> list[Action]:
        """Run one round with the job, the steps `seen` in its log, and the `dump` of its ranks' stacks. `alive` means
        that all kubelets have renewed their leases.
        """
        self.record = reconcile.update_record(self.record, job, make_timestamp(second), seen, dump)
        leases = {name: make_timestamp(second) for name in NODES} if alive else {}
        actions = [*workers_end.decide_cleanup(job), *reconcile.decide_actions(self.record, job, leases, make_timestamp(second))]
        assert record.is_valid_record(self.record), "the controller would ignore its own record"
        return actions

    def record_deletion(self, second: int) -> None:
        assert self.record is not None
        self.record = reconcile.close_record(self.record, make_timestamp(second))
        assert record.is_valid_record(self.record), "the controller would ignore its own record"

    def __getitem__(self, key: str) -> Any:
        assert self.record is not None
        return self.record[key]

    @property
    def outcomes(self) -> list[tuple[str | None, str]]:
        return [(attempt["outcome"], attempt["cause"]) for attempt in self["attempts"]]
