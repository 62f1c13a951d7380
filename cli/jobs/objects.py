"""Create, find and delete the objects of a job in a cluster."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

from cli.clusters.kubernetes_access import Cluster, Object
from cli.console import say_once
from cli.errors import CommandError, Forbidden, NotFound
from cli.exit_codes import REFUSED
from cli.installation import NAME
from cli.installation import command as program
from cli.jobs import foreign_jobs
from cli.jobs.state import JobState, state_of, stopped
from cli.local import crashed_parts
from infra.config.messages import did_you_mean
from infra.health import documents
from infra.jobs.pieces import Piece
from infra.jobs.render import owner_reference
from infra.naming import JOB_LABEL, JOB_NAMESPACE, POOL_LABEL, ROLE_LABEL

OURS = {ROLE_LABEL: "job"}
UNSEEN_SECONDS, PAUSE_SECONDS = 15.0, 0.3
"""Time limit and interval of retries while a webhook cannot yet find the owner of a new object."""


def default_namespace(cluster: Cluster, requested: str | None) -> str:
    """Return the requested namespace, or else the context namespace, or else the cluster's first job namespace."""
    if requested or cluster.namespace:
        return requested or cluster.namespace or ""
    try:
        return cluster.description().namespaces[0].name
    except (CommandError, IndexError):
        return JOB_NAMESPACE


def all_jobs(cluster: Cluster, namespace: str | None) -> list[JobState]:
    """Return the jobs of one namespace or of all namespaces, newest first."""
    found = [{**one, "kind": "MPIJob"} for one in cluster.list("MPIJob", namespace)]
    found += [{**one, "kind": "Job"} for one in cluster.list("Job", namespace, OURS)]
    workers = {}
    if any(one["kind"] == "Job" for one in found):  # for jobs of the standalone launcher, a StatefulSet runs the workers
        for one in cluster.list("StatefulSet", namespace, {ROLE_LABEL: "workers"}):
            workers[one["metadata"]["namespace"], one["metadata"]["labels"].get(JOB_LABEL)] = one
    found += [one for kind in foreign_jobs.KINDS for one in _foreign(cluster, kind, namespace)]
    read = [_state(manifest, workers.get((manifest["metadata"]["namespace"], _name(manifest)))) for manifest in found]
    states = [state for state in read if state is not None]
    if any(state.phase == "Queued" for state in states):
        workloads = cluster.list("Workload", namespace)
        states = [_if_stopped(cluster, state, workloads) for state in states]
    return sorted(states, key=lambda state: state.created, reverse=True)


def _foreign(cluster: Cluster, kind: str, namespace: str | None) -> list[Object]:
    """Return the jobs of a kind that `submit` did not create; empty if the caller is not allowed to list this kind."""
    try:
        found = cluster.list(kind, namespace)
    except Forbidden:
        return []
    return [{**one, "kind": kind} for one in found if foreign_jobs.is_foreign(one)]


def _name(found: Object) -> str:
    return str((found["metadata"].get("labels") or {}).get(JOB_LABEL, found["metadata"]["name"]))


def _state(manifest: Object, stateful_set: Object | None) -> JobState | None:
    """Return the state of a job. A job whose object cannot be read is left out, with one note: the API server does not
    validate every field of a custom resource."""
    try:
        state = _with_workers(state_of(manifest), stateful_set)
        if not all(map(documents.is_count, (state.workers, state.failures))):
            raise ValueError("a number of workers or failures is not a number")
        return state
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        metadata, why = manifest["metadata"], f"{type(error).__name__}: {error}"
        about = f"{manifest['kind']} {metadata['name']} in namespace {metadata['namespace']}"
        say_once(f"{NAME}: {about} is left out, because it cannot be read ({why})")
        return None


def _with_workers(state: JobState, stateful_set: Object | None) -> JobState:
    if stateful_set is None:
        return state
    spec = stateful_set["spec"]
    pool = spec["template"]["spec"].get("nodeSelector", {}).get(POOL_LABEL, "")
    return replace(state, workers=spec["replicas"], pool=pool)


def find(cluster: Cluster, name: str, namespace: str) -> JobState:
    """Return the state of a job. Raises NotFound, whose message suggests a similar name."""
    found = cluster.find("MPIJob", name, namespace)
    if found is not None:
        return _if_stopped(cluster, _existing({**found, "kind": "MPIJob"}))
    jobs = cluster.list("Job", namespace, {**OURS, JOB_LABEL: name})
    if not jobs:
        others = (one for kind in foreign_jobs.KINDS for one in _foreign(cluster, kind, namespace))
        other = next((one for one in others if one["metadata"]["name"] == name), None)
        if other is not None:
            return _if_stopped(cluster, _existing(other))
        existing = [state.name for state in all_jobs(cluster, namespace)]
        raise NotFound(f"there is no job {name} in namespace {namespace}{did_you_mean(name, existing)}")
    return _if_stopped(cluster, _existing({**jobs[0], "kind": "Job"}, cluster.find("StatefulSet", f"{name}-worker", namespace)))


def _existing(manifest: Object, stateful_set: Object | None = None) -> JobState:
    """Return the state of a job. Raises CommandError if its object cannot be read."""
    state = _state(manifest, stateful_set)
    if state is None:
        kind, name, namespace = manifest["kind"], manifest["metadata"]["name"], manifest["metadata"]["namespace"]
        raise CommandError(f"{kind} {name} cannot be read. Delete it: kubectl delete {kind.lower()} {name} -n {namespace}")
    return state


def _if_stopped(cluster: Cluster, state: JobState, workloads: Sequence[Object] | None = None) -> JobState:
    """Return the state. The phase is `Failed` if Kueue has stopped the job permanently because its pods did not start."""
    if state.phase != "Queued":
        return state
    found = workloads if workloads is not None else cluster.list("Workload", state.namespace)
    held = next((one for one in found if is_of(one, state)), None)
    if held is None or held.get("spec", {}).get("active", True):
        return state
    reason = stopped(state, held, warnings(cluster, state.namespace))
    return replace(state, phase="Failed", reason=reason)


def warnings(cluster: Cluster, namespace: str) -> list[Object]:
    """Return the Warning events in a namespace; empty if they cannot be read."""
    try:
        return cluster.list("Event", namespace, fields={"type": "Warning"})
    except CommandError:
        return []


def pods(cluster: Cluster, state: JobState) -> list[Object]:
    """Return all pods of a job, even if `submit` did not create the job."""
    found = cluster.list("Pod", state.namespace, {JOB_LABEL: state.name})
    return found or cluster.list("Pod", state.namespace, {foreign_jobs.POD_LABELS[state.kind]: state.name})


def workload(cluster: Cluster, state: JobState) -> Object | None:
    """Return Kueue's Workload for the job; None if the job has no Workload."""
    return next((one for one in cluster.list("Workload", state.namespace) if is_of(one, state)), None)


def is_of(workload: Object, state: JobState) -> bool:
    """Return whether Kueue created the Workload for this job."""
    owners = workload["metadata"].get("ownerReferences", ())
    place = workload["metadata"].get("namespace", state.namespace)
    return place == state.namespace and any((one["kind"], one["name"]) == (state.kind, state.object_name) for one in owners)


def create(cluster: Cluster, pieces: Sequence[Piece]) -> None:
    """Create a job's objects. The first object is the job itself, which owns the others directly or indirectly, so that
    Kubernetes deletes them together with the job.

    If the API server rejects an object, delete the objects that were created before it. Raises CommandError.
    """
    main: Object | None = None
    cleanup: Object | None = None
    for piece in pieces:
        owner = cleanup if piece.owner == "cleanup controller" else main if piece.owner == "main" else None
        manifest = piece.manifest
        if owner is not None:
            reference = owner_reference(owner, owner["metadata"]["uid"])
            manifest = {**manifest, "metadata": {**manifest["metadata"], "ownerReferences": [reference]}}
        try:
            made = _create(cluster, manifest)
        except CommandError:
            if main is not None:
                cluster.delete(main["kind"], main["metadata"]["name"], main["metadata"]["namespace"])
            raise
        if main is None:
            main = made
        if manifest["metadata"]["labels"].get(ROLE_LABEL) == "keeper" and manifest["kind"] == "Job":
            cleanup = made


def _create(cluster: Cluster, manifest: Object) -> Object:
    """Create an object. Retry, because Kueue's webhook looks up the owner in a cache that may not contain it yet."""
    retrying = Retrying(
        retry=retry_if_exception(lambda error: isinstance(error, NotFound) and "admission webhook" in str(error)),
        stop=stop_after_delay(UNSEEN_SECONDS),
        wait=wait_fixed(PAUSE_SECONDS),
        reraise=True,
    )
    return retrying(cluster.create, manifest)


class Beside(Protocol):
    """Files that a job needs in addition to its objects, such as a folder on the shared volume."""

    def create(self, cluster: Cluster) -> None: ...

    def remove(self, cluster: Cluster) -> None: ...


def submit(cluster: Cluster, pieces: Sequence[Piece], beside: Beside | None = None) -> None:
    """Create the objects of a job. Raises CommandError if a job with that name exists."""
    crashed_parts.refuse_dead_cluster(cluster.server, nodes=True)
    refuse_existing(cluster, pieces)
    if beside is None:
        create(cluster, pieces)
        return
    beside.create(cluster)
    try:
        create(cluster, pieces)
    except BaseException:
        beside.remove(cluster)
        raise


def refuse_existing(cluster: Cluster, pieces: Sequence[Piece]) -> None:
    """Raise CommandError if a job with that name exists, regardless of its launcher."""
    first = pieces[0].manifest["metadata"]
    name, namespace = first["labels"][JOB_LABEL], first["namespace"]
    try:
        state = find(cluster, name, namespace)
    except NotFound:
        return
    fix = f"choose another name, or `{program()} cancel {name}` first"
    raise CommandError(f"name: job {name} already exists in namespace {namespace} ({state.phase}); {fix}", REFUSED)
