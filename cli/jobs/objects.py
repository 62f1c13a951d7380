"""Create, find and delete the objects of a job in a cluster."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Protocol, TypeVar

from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

from cli.clusters.kubernetes_access import Cluster, Object
from cli.console import print_progress_once
from cli.errors import CommandError, Forbidden, NotFound
from cli.exit_codes import REFUSED
from cli.installation import NAME
from cli.installation import program_name as program
from cli.jobs import foreign_jobs, records
from cli.jobs.records import JobRecord
from cli.jobs.state import JobState, derive_foreign_state, derive_state, explain_kueue_stop
from cli.local import crashed_parts
from infra.config.messages import suggest_correction
from infra.health import documents
from infra.jobs.cluster import PoolDescription
from infra.jobs.placed import Storage, build_owner_reference
from infra.naming import JOB_LABEL, JOB_NAMESPACE, ROLE_LABEL
from infra.platform.job_controller.in_pod.cluster import assemble_jobs
from infra.platform.job_controller.in_pod.job import ManagedJob, read_labels
from infra.platform.job_controller.in_pod.moments import parse_time
from infra.platform.job_controller.in_pod.phases import Phase

Item = TypeVar("Item")

UNSEEN_SECONDS, PAUSE_SECONDS = 15.0, 0.3
"""Time limit and interval of retries while a webhook cannot yet find the owner of a new object."""


def find_pool(name: str, pools: Sequence[PoolDescription]) -> PoolDescription:
    """Return the pool with the name that the user gave. Raises NotFound if there is none."""
    pool = next((pool for pool in pools if pool.name == name), None)
    if pool is None:
        raise NotFound(f"there is no pool {name}{suggest_correction(name, [pool.name for pool in pools])}")
    return pool


def choose_namespace(cluster: Cluster, requested: str | None) -> str:
    """Return the requested namespace, or else the context namespace, or else the cluster's first job namespace."""
    if requested or cluster.namespace:
        return requested or cluster.namespace or ""
    try:
        return cluster.description().namespaces[0].name
    except (CommandError, IndexError):
        return JOB_NAMESPACE


def list_jobs(cluster: Cluster, namespace: str | None) -> list[JobState]:
    """Return the jobs of one namespace or of all namespaces, newest first."""
    listed = [*_list_objects(cluster, "MPIJob", namespace), *_list_objects(cluster, "Job", namespace)]
    listed += [main for kind in foreign_jobs.KINDS if kind != "Job" for main in _list_foreign_jobs(cluster, kind, namespace)]
    if any(item["kind"] == "Job" for item in listed):  # for jobs of the standalone launcher, a StatefulSet runs the workers
        listed += _list_objects(cluster, "StatefulSet", namespace, {ROLE_LABEL: "workers"})
    by_namespace = _group_by_namespace(listed)
    running = [place for place, own in by_namespace.items() if not all(state.is_over for state in _derive_states(own, (), ()))]
    pods = _group_by_namespace(_list_in_namespaces(running, namespace, partial(cluster.list, "Pod")))
    recorded = _list_in_namespaces(running, namespace, partial(records.list_records, cluster))
    states = [state for place, own in by_namespace.items() for state in _derive_states(own, pods[place], recorded)]
    if any(state.phase == Phase.QUEUED for state in states):
        workloads = cluster.list("Workload", namespace)
        states = [fail_if_stopped_by_kueue(cluster, state, workloads) for state in states]
    return sorted(states, key=lambda state: state.created, reverse=True)


def _group_by_namespace(items: Iterable[Object]) -> defaultdict[str, list[Object]]:
    groups = defaultdict(list)
    for item in items:
        groups[item["metadata"]["namespace"]].append(item)
    return groups


def _list_in_namespaces(namespaces: Sequence[str], namespace: str | None, read: Callable[[str | None], list[Item]]) -> list[Item]:
    """Return the objects of these namespaces. Uses a single request if the user asked for all namespaces and may list them."""
    if namespace is None and namespaces:
        with suppress(Forbidden):
            return read(None)
    return [item for place in namespaces for item in _list_if_allowed(partial(read, place))]


def _derive_states(listed: Sequence[Object], pods: Sequence[Object], recorded: Sequence[JobRecord]) -> list[JobState]:
    by_kind = {kind: [item for item in listed if item["kind"] == kind] for kind in ("MPIJob", "Job", "StatefulSet")}
    states = [
        _derive_state_or_skip(job.main, partial(_derive_state_with_record, job, recorded))
        for job in assemble_jobs({**by_kind, "Pod": pods}, {})
    ]
    pods_of = defaultdict(list)
    for pod in pods:
        pods_of[foreign_jobs.get_job_name(pod)].append(pod)
    for main in listed:
        if main["kind"] in foreign_jobs.KINDS and foreign_jobs.is_foreign(main):
            states.append(_derive_state_or_skip(main, partial(derive_foreign_state, main, pods_of[main["metadata"]["name"]])))
    return [state for state in states if state is not None]


def _derive_state_with_record(job: ManagedJob, recorded: Sequence[JobRecord]) -> JobState:
    created = parse_time(job.main["metadata"]["creationTimestamp"])
    return derive_state(job, records.find_record(recorded, (job.namespace, job.name, created)))


def _list_objects(cluster: Cluster, kind: str, namespace: str | None, selector: Mapping[str, str] | None = None) -> list[Object]:
    return [{**item, "kind": kind} for item in cluster.list(kind, namespace, selector)]


def _list_foreign_jobs(cluster: Cluster, kind: str, namespace: str | None) -> list[Object]:
    """Return the jobs of a kind that `submit` did not create."""
    return [main for main in _list_if_allowed(lambda: _list_objects(cluster, kind, namespace)) if foreign_jobs.is_foreign(main)]


def _derive_state_or_skip(main: Object, read: Callable[[], JobState]) -> JobState | None:
    """Return the state of a job. A job whose object cannot be read is left out, with a note printed once: the API
    server does not validate every field of a custom resource."""
    try:
        state = read()
        if not all(map(documents.is_non_negative_integer, (state.workers, state.failures))):
            raise ValueError("the number of workers or failures is not a number")
        return state
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        metadata, why = main["metadata"], f"{type(error).__name__}: {error}"
        about = f"{main['kind']} {metadata['name']} in namespace {metadata['namespace']}"
        print_progress_once(f"{NAME}: {about} is left out, because it cannot be read ({why})")
        return None


def find_job(cluster: Cluster, name: str, namespace: str) -> JobState:
    """Return the state of a job. Raises NotFound, whose message suggests a similar name."""
    main = cluster.find("MPIJob", name, namespace)
    listed = [{**main, "kind": "MPIJob"}] if main is not None else []
    listed += _list_objects(cluster, "Job", namespace, {JOB_LABEL: name})
    if main is None and not any(read_labels(item).get(ROLE_LABEL) == "job" for item in listed):
        return _find_foreign_job(cluster, name, namespace)
    if main is None:
        listed += _list_objects(cluster, "StatefulSet", namespace, {JOB_LABEL: name})
    kind = "Job" if main is None else "MPIJob"
    recorded = _list_if_allowed(lambda: records.list_records(cluster, namespace, name))
    return _read_state(cluster, kind, name, namespace, listed, recorded)


def _find_foreign_job(cluster: Cluster, name: str, namespace: str) -> JobState:
    mains = [main for kind in foreign_jobs.KINDS for main in _list_foreign_jobs(cluster, kind, namespace)]
    main = next((main for main in mains if main["metadata"]["name"] == name), None)
    if main is None:
        existing = [state.name for state in list_jobs(cluster, namespace)]
        raise NotFound(f"there is no job {name} in namespace {namespace}{suggest_correction(name, existing)}")
    return _read_state(cluster, main["kind"], name, namespace, [main], ())


def _read_state(
    cluster: Cluster, kind: str, name: str, namespace: str, listed: Sequence[Object], recorded: Sequence[JobRecord]
) -> JobState:
    """Return the state of a job from its objects. Raises CommandError if its main object cannot be read."""
    states = _derive_states(listed, _list_job_pods(cluster, name, namespace, kind), recorded)
    if not states:
        raise CommandError(f"{kind} {name} cannot be read. Delete it: kubectl delete {kind.lower()} {name} -n {namespace}")
    return fail_if_stopped_by_kueue(cluster, states[0])


def fail_if_stopped_by_kueue(cluster: Cluster, state: JobState, workloads: Sequence[Object] | None = None) -> JobState:
    """Return the state. The phase is `Failed` if Kueue has stopped the job permanently because its pods did not start."""
    if state.phase != Phase.QUEUED:
        return state
    listed = workloads if workloads is not None else cluster.list("Workload", state.namespace)
    own = next((item for item in listed if is_job_workload(item, state)), None)
    if own is None or own.get("spec", {}).get("active", True):
        return state
    return replace(state, phase=Phase.FAILED, reason=explain_kueue_stop(state, own, list_warnings(cluster, state.namespace)))


def list_warnings(cluster: Cluster, namespace: str) -> list[Object]:
    """Return the Warning events in a namespace; empty if they cannot be read."""
    try:
        return cluster.list("Event", namespace, fields={"type": "Warning"})
    except CommandError:
        return []


def list_pods(cluster: Cluster, state: JobState) -> list[Object]:
    """Return all pods of a job, even if `submit` did not create the job."""
    return _list_job_pods(cluster, state.name, state.namespace, state.kind)


def _list_job_pods(cluster: Cluster, name: str, namespace: str, kind: str) -> list[Object]:
    submitted = _list_pods_if_allowed(cluster, namespace, {JOB_LABEL: name})
    return submitted or _list_pods_if_allowed(cluster, namespace, {foreign_jobs.POD_LABELS[kind]: name})


def _list_pods_if_allowed(cluster: Cluster, namespace: str, selector: Mapping[str, str] | None = None) -> list[Object]:
    return _list_if_allowed(lambda: cluster.list("Pod", namespace, selector))


def _list_if_allowed(read: Callable[[], list[Item]]) -> list[Item]:
    """Return what the caller is allowed to list; empty if the caller may not, because the jobs' own objects show most phases."""
    try:
        return read()
    except Forbidden:
        return []


def find_workload(cluster: Cluster, state: JobState) -> Object | None:
    """Return Kueue's Workload for the job; None if the job has no Workload."""
    return next((item for item in cluster.list("Workload", state.namespace) if is_job_workload(item, state)), None)


def is_job_workload(workload: Object, state: JobState) -> bool:
    """Return whether Kueue created the Workload for this job."""
    owners = workload["metadata"].get("ownerReferences", ())
    place = workload["metadata"].get("namespace", state.namespace)
    return place == state.namespace and any((owner["kind"], owner["name"]) == (state.kind, state.object_name) for owner in owners)


def create_job_objects(cluster: Cluster, manifests: Sequence[Object]) -> None:
    """Create a job's objects. The first object is the job itself. The job owns the other objects, so Kubernetes
    deletes them with it.

    If the API server rejects an object, delete the objects that were created before it. Raises CommandError.
    """
    main = _create_with_retries(cluster, manifests[0])
    reference = build_owner_reference(main, main["metadata"]["uid"])
    try:
        for manifest in manifests[1:]:
            _create_with_retries(cluster, {**manifest, "metadata": {**manifest["metadata"], "ownerReferences": [reference]}})
    except CommandError:
        cluster.delete(main["kind"], main["metadata"]["name"], main["metadata"]["namespace"])
        raise


def _create_with_retries(cluster: Cluster, manifest: Object) -> Object:
    """Create an object. Retry, because Kueue's webhook looks up the owner in a cache that may not contain the owner yet."""
    retrying = Retrying(
        retry=retry_if_exception(lambda error: isinstance(error, NotFound) and "admission webhook" in str(error)),
        stop=stop_after_delay(UNSEEN_SECONDS),
        wait=wait_fixed(PAUSE_SECONDS),
        reraise=True,
    )
    return retrying(cluster.create, manifest)


class Files(Protocol):
    """Files that a job needs in addition to its objects, such as a folder on the shared volume."""

    @property
    def storage(self) -> Storage: ...

    def create(self, cluster: Cluster) -> None: ...

    def remove(self, cluster: Cluster) -> None: ...


def submit_job(cluster: Cluster, manifests: Sequence[Object], files: Files | None = None) -> None:
    """Create the files and the objects of a job. Raises CommandError if a job with that name exists."""
    crashed_parts.check_control_plane_runs(cluster.server, nodes=True)
    check_job_is_new(cluster, manifests)
    if files is not None:
        files.create(cluster)
    try:
        create_job_objects(cluster, manifests)
    except BaseException:
        if files is not None:
            files.remove(cluster)
        raise


def check_job_is_new(cluster: Cluster, manifests: Sequence[Object]) -> None:
    """Raise CommandError if a job with that name exists, regardless of its launcher."""
    first = manifests[0]["metadata"]
    name, namespace = first["labels"][JOB_LABEL], first["namespace"]
    try:
        state = find_job(cluster, name, namespace)
    except NotFound:
        return
    fix = f"choose another name, or `{program()} cancel {name}` first"
    raise CommandError(f"name: job {name} already exists in namespace {namespace} ({state.phase}); {fix}", REFUSED)
