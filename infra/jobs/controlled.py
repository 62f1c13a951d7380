"""Changes to a job's objects in clusters with a job controller, which restarts the whole job and runs `setup` first.

Kubernetes and mpi-operator retry a failed attempt. The controller judges each attempt, and fails the job when no retry
is left. Unlike a Kubernetes Job, the controller distinguishes lost nodes from failures.
"""

import copy
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from infra.jobs import standalone
from infra.jobs.in_pods import shell, text
from infra.jobs.pieces import Piece
from infra.jobs.pod_templates import overridden
from infra.jobs.pods import SAFE_TO_EVICT, Manifest, PlacedJob, container, launcher_pod
from infra.jobs.progress import seconds_of
from infra.jobs.quantities import millis_of
from infra.naming import HELD_QUEUE, POLICY_ANNOTATION, ROLE_LABEL, job_labels

POLICY_VERSION: Final = 1
DISRUPTIONS: Final = 100
"""Attempts that Kubernetes allows a job in addition to `maxRestarts`, because lost nodes and preemption do not count as
restarts."""
SETUP: Final = "setup"
PROGRESS_FILE: Final = "GPUMPI_PROGRESS_FILE"
FLIGHT_RECORDER: Final = {
    "TORCH_NCCL_TRACE_BUFFER_SIZE": "2000",
    "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "/tmp/nccl_trace_rank_",
    "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": "/tmp/nccl_dump_rank_",
}
"""https://docs.pytorch.org/docs/stable/torch_nccl_environment_variables.html

PyTorch 2.11 still reads the first two variables, but warns that their names are deprecated. Older versions do not read
the new names.
"""
NEW_NAMES: Final = {
    "TORCH_NCCL_TRACE_BUFFER_SIZE": "TORCH_FR_BUFFER_SIZE",
    "TORCH_NCCL_DEBUG_INFO_TEMP_FILE": "TORCH_FR_DUMP_TEMP_FILE",
}
QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"


def controlled(pieces: Sequence[Piece], placed: PlacedJob) -> list[Piece]:
    """Return the objects of a job for a cluster with a job controller. The main object comes first."""
    main, *others = (replace(piece, manifest=copy.deepcopy(piece.manifest)) for piece in pieces)
    main.manifest["metadata"].setdefault("annotations", {})[POLICY_ANNOTATION] = json.dumps(policy(placed), sort_keys=True)
    _allow_disruptions(main.manifest, placed)
    for piece in others:
        _serve_until_the_end(piece.manifest, placed)
    _report_steps(main.manifest, placed)
    for piece in (main, *others):
        _record_collectives(piece.manifest, placed)
    if not placed.job.setup:
        return [main, *others]
    for piece in (main, *others):
        _hold(piece, placed)
    return [main, replace(main, manifest=setup(placed), owner="main"), *others]


def policy(placed: PlacedJob) -> Manifest:
    """Return the controller's policy for the job (`POLICY` in infra/platform/job_controller/in_pod/job.py)."""
    job = placed.job
    deadline = {} if job.active_deadline_seconds is None else {"activeDeadlineSeconds": job.active_deadline_seconds}
    return {
        "version": POLICY_VERSION,
        "pool": job.pool,
        "workers": job.workers,
        "maxRestarts": job.max_restarts,
        "noRetryExitCodes": list(job.no_retry_exit_codes),
        **deadline,
        **_progress(placed),
        **({"hold": {"queue": placed.namespace.queue}} if job.setup else {}),
    }


def _progress(placed: PlacedJob) -> Manifest:
    progress = placed.job.progress
    if progress is None:
        return {}
    each = placed.job.per_node or placed.size.slots
    return {
        "progress": {"pattern": progress.found_by, "within": seconds_of(progress.within), "ranksPerWorker": each},
    }


def _report_steps(main: Manifest, placed: PlacedJob) -> None:
    """Make the pod with the job's log print the steps from `progress.file`: the controller reads only this log."""
    path = placed.job.progress and placed.job.progress.file
    if not path:
        return
    for one in (found for pod in pods_in(main) for found in pod["containers"]):
        if one["name"] == ("worker" if placed.job.launcher == "torchrun" else "launcher"):
            program, option, script, *rest = one["command"]
            one["command"] = [program, option, text("progress_file.sh") + script, *rest]
            one["env"].append({"name": PROGRESS_FILE, "value": path})


def _record_collectives(manifest: Manifest, placed: PlacedJob) -> None:
    """Make PyTorch record its last collectives, and dump them when the controller diagnoses a hung job."""
    job = placed.job
    if not job.progress or not placed.size.gpus:
        return
    for one in (found for pod in pods_in(manifest) for found in pod["containers"] if found["name"] == "worker"):
        given = {env["name"] for env in one["env"]}
        ours = {name: value for name, value in FLIGHT_RECORDER.items() if not given & {name, NEW_NAMES.get(name, name)}}
        one["env"] += [{"name": name, "value": value} for name, value in ours.items()]


def _allow_disruptions(main: Manifest, placed: PlacedJob) -> None:
    spec, attempts = main["spec"], placed.job.max_restarts + DISRUPTIONS
    match placed.job.launcher:
        case "mpijob":
            spec["runPolicy"]["backoffLimit"] = attempts
        case "standalone":
            spec["backoffLimit"] = attempts
            spec.pop("activeDeadlineSeconds", None)  # the deadline would include the workers' time in the queue
        case "torchrun":
            # Kubernetes waits 10 seconds before it retries an index, and doubles the wait each time. With one limit for
            # all indexes, Kubernetes would count all failed pods of an attempt, and wait 10 minutes after 8 workers
            # failed.
            del spec["backoffLimit"]
            spec |= {"backoffLimitPerIndex": attempts, "maxFailedIndexes": 0}


def _serve_until_the_end(manifest: Manifest, placed: PlacedJob) -> None:
    """Make the cleanup controller of a `standalone` job watch the launcher's Job instead of counting failed attempts:
    only the job controller knows which attempt is the last."""
    if manifest["metadata"]["labels"].get(ROLE_LABEL) != standalone.KEEPER:
        return
    if manifest["kind"] == "Role":
        names = [standalone.launcher_name(placed.job.name)]
        manifest["rules"].append({"apiGroups": ["batch"], "resources": ["jobs"], "resourceNames": names, "verbs": ["get"]})
    if manifest["kind"] == "Job":
        manifest["spec"].pop("activeDeadlineSeconds", None)
        (made,) = manifest["spec"]["template"]["spec"]["containers"]
        made["command"][standalone.FAILURES_ARGUMENT] = standalone.WATCH_JOB


# --- setup -------------------------------------------------------------------------------------------------------------


def setup(placed: PlacedJob) -> Manifest:
    """Return the Job that runs `setup`. The queue admits this Job separately from the ranks, so `setup` may take longer
    than 30 minutes. After that time, the queue evicts a job if not all of its pods are ready."""
    job = placed.job
    amounts = job.setup_resources
    memory = {"memory": amounts.memory}
    request = max(1, int(millis_of(amounts.cpu) * placed.cluster.cpu_request_factor))
    resources = {"requests": {"cpu": f"{request}m", **memory}, "limits": {"cpu": amounts.cpu, **memory}}
    main = container(placed, SETUP, shell("prepare.sh", *job.setup), {}, resources=resources)
    metadata = placed.queued_metadata(f"{job.name}-{SETUP}", SETUP)
    pod = {"labels": job_labels(job.name, job.launcher, SETUP), "annotations": dict(SAFE_TO_EVICT)}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {
            "backoffLimit": job.max_restarts,
            "podReplacementPolicy": "Failed",
            "activeDeadlineSeconds": job.setup_deadline_seconds,
            "template": overridden(placed, SETUP, {"metadata": pod, "spec": launcher_pod(placed, [main], restartPolicy="Never")}),
        },
    }


def _hold(piece: Piece, placed: PlacedJob) -> None:
    """Keep the ranks out of the queue until the controller releases them."""
    manifest = piece.manifest
    if manifest["kind"] == "StatefulSet":
        manifest["spec"]["replicas"] = 0
    if piece.owner is not None:
        return
    if placed.namespace.queue:
        manifest["metadata"]["labels"][QUEUE_LABEL] = HELD_QUEUE
    elif placed.job.launcher == "mpijob":
        manifest["spec"]["runPolicy"]["suspend"] = True
    else:
        manifest["spec"]["suspend"] = True


def pods_in(manifest: Manifest) -> list[Manifest]:
    """Return the pod specs in an object."""
    spec = manifest.get("spec", {})
    templates = [one["template"] for one in spec.get("mpiReplicaSpecs", {}).values()]
    return [one["spec"] for one in [*templates, *([spec["template"]] if "template" in spec else [])]]
