"""A job's objects in a cluster: made, found, watched, removed."""

import time
from collections.abc import Sequence
from dataclasses import replace

from cli.cluster_access import Cluster, Failed, Missing, Object
from cli.exit_codes import REFUSED
from cli.job_state import JobState, state_of
from infra.config.messages import did_you_mean
from infra.jobs.render import Piece, owner_reference
from infra.naming import JOB_LABEL, JOB_NAMESPACE, POOL_LABEL, ROLE_LABEL

OURS = {ROLE_LABEL: "job"}
UNSEEN_SECONDS, PAUSE_SECONDS = 15.0, 0.3
"""How long, and how often, an object is offered whose owner a webhook does not see yet."""


def default_namespace(cluster: Cluster, asked: str | None) -> str:
    """Where to look for jobs: what is asked for, the context's namespace, the cluster's own one for jobs."""
    if asked or cluster.namespace:
        return asked or cluster.namespace or ""
    try:
        return cluster.description().namespaces[0].name
    except (Failed, IndexError):
        return JOB_NAMESPACE


def all_jobs(cluster: Cluster, namespace: str | None) -> list[JobState]:
    """The jobs of a namespace, or of all; the newest first."""
    found = [{**one, "kind": "MPIJob"} for one in cluster.list("MPIJob", namespace)]
    found += [{**one, "kind": "Job"} for one in cluster.list("Job", namespace, OURS)]
    workers = {}
    if any(one["kind"] == "Job" for one in found):  # without an operator, the StatefulSet knows the workers
        for one in cluster.list("StatefulSet", namespace, {ROLE_LABEL: "workers"}):
            workers[one["metadata"]["namespace"], one["metadata"]["labels"][JOB_LABEL]] = one
    states = [_with_workers(state_of(one), workers.get((one["metadata"]["namespace"], _name(one)))) for one in found]
    return sorted(states, key=lambda state: state.created, reverse=True)


def _name(found: Object) -> str:
    return str(found["metadata"].get("labels", {}).get(JOB_LABEL, found["metadata"]["name"]))


def _with_workers(state: JobState, stateful_set: Object | None) -> JobState:
    if stateful_set is None:
        return state
    spec = stateful_set["spec"]
    pool = spec["template"]["spec"].get("nodeSelector", {}).get(POOL_LABEL, "")
    return replace(state, workers=spec["replicas"], pool=pool)


def find(cluster: Cluster, name: str, namespace: str) -> JobState:
    """Raises Missing, with the names that are near."""
    found = cluster.find("MPIJob", name, namespace)
    if found is not None:
        return state_of({**found, "kind": "MPIJob"})
    jobs = cluster.list("Job", namespace, {**OURS, JOB_LABEL: name})
    if not jobs:
        there = [state.name for state in all_jobs(cluster, namespace)]
        raise Missing(f"there is no job {name} in namespace {namespace}{did_you_mean(name, there)}")
    state = state_of({**jobs[0], "kind": "Job"})
    return _with_workers(state, cluster.find("StatefulSet", f"{name}-worker", namespace))


def pods(cluster: Cluster, state: JobState) -> list[Object]:
    """All pods of a job, also of one that `submit` did not make."""
    found = cluster.list("Pod", state.namespace, {JOB_LABEL: state.name})
    if not found and state.kind == "MPIJob":
        found = cluster.list("Pod", state.namespace, {"training.kubeflow.org/job-name": state.name})
    return found


def workload(cluster: Cluster, state: JobState) -> Object | None:
    """What the queue says of the job."""
    return next((one for one in cluster.list("Workload", state.namespace) if is_of(one, state)), None)


def is_of(workload: Object, state: JobState) -> bool:
    """Whether the queue made it for the job."""
    owners = workload["metadata"].get("ownerReferences", ())
    return any(owner["kind"] == state.kind and owner["name"] == state.object_name for owner in owners)


def create(cluster: Cluster, pieces: Sequence[Piece]) -> None:
    """Make the objects of a job, the one that is the job first: the others belong to it and go with it.

    Where one is refused, what was made goes again. Raises Failed.
    """
    main: Object | None = None
    keeper: Object | None = None
    for piece in pieces:
        owner = keeper if piece.owner == "cleanup controller" else main if piece.owner == "main" else None
        manifest = piece.manifest
        if owner is not None:
            reference = owner_reference(owner, owner["metadata"]["uid"])
            manifest = {**manifest, "metadata": {**manifest["metadata"], "ownerReferences": [reference]}}
        try:
            made = _made(cluster, manifest)
        except Failed:
            if main is not None:
                cluster.delete(main["kind"], main["metadata"]["name"], main["metadata"]["namespace"])
            raise
        if main is None:
            main = made
        if manifest["metadata"]["labels"].get(ROLE_LABEL) == "keeper" and manifest["kind"] == "Job":
            keeper = made


def _made(cluster: Cluster, manifest: Object) -> Object:
    """The queue's webhook looks up the owner, which was made a moment ago, in a memory of its own that may lag behind."""
    limit = time.monotonic() + UNSEEN_SECONDS
    while True:
        try:
            return cluster.create(manifest)
        except Missing as error:
            if "admission webhook" not in str(error) or time.monotonic() > limit:
                raise
        time.sleep(PAUSE_SECONDS)


def refuse_existing(cluster: Cluster, pieces: Sequence[Piece]) -> None:
    """Before anything is made: a job of that name is there, whatever its launcher. Raises Failed."""
    first = pieces[0].manifest["metadata"]
    name, namespace = first["labels"][JOB_LABEL], first["namespace"]
    try:
        state = find(cluster, name, namespace)
    except Missing:
        return
    way_out = f"choose another name, or `scripts/cluster cancel {name}` first"
    raise Failed(f"name: there is a job {name} in namespace {namespace} already ({state.phase}); {way_out}", REFUSED)
