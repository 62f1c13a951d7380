"""Select the pods and containers of a job."""

from collections.abc import Sequence

from cli.clusters.kubernetes_access import Cluster, Object
from cli.clusters.pod_streams import Container
from cli.errors import CommandError, NotFound
from cli.exit_codes import USAGE
from cli.installation import program_name as program
from cli.jobs import objects
from cli.jobs.follow_log import list_job_containers
from cli.jobs.foreign_jobs import get_pod_role, get_worker_index
from cli.jobs.state import JobState


def select_workers(pods: Sequence[Object], index: int | None = None) -> list[Object]:
    """Return the pods of all workers, or of one worker, sorted by worker and age."""
    numbered = [(number, pod) for pod in pods if (number := get_worker_index(pod)) is not None and index in (None, number)]
    return [pod for _, pod in sorted(numbered, key=lambda entry: (entry[0], read_creation_time(entry[1])))]


def select_launchers(pods: Sequence[Object]) -> list[Object]:
    return sorted((pod for pod in pods if get_pod_role(pod) == "launcher"), key=read_creation_time)


def read_creation_time(pod: Object) -> tuple[str, str]:
    return pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]


def make_log_label(pod: Object, state: JobState) -> str:
    """Return the prefix for a pod's log lines, such as `worker-0` or `launcher`."""
    number = get_worker_index(pod)
    return (
        f"worker-{number}" if number is not None else get_pod_role(pod) or pod["metadata"]["name"].removeprefix(f"{state.name}-")
    )


def check_worker(state: JobState, worker: int | None) -> None:
    """Raise CommandError if the job has no worker with this index."""
    if worker is not None and state.workers and not 0 <= worker < state.workers:
        raise CommandError(f"--worker: job {state.name} has the workers 0 to {state.workers - 1} (got {worker})", USAGE)


def find_running_container(cluster: Cluster, state: JobState, worker: int, *, launcher: bool) -> Container:
    """Return the container to connect to: the launcher's or a worker's. Raises NotFound if that container is not
    running.
    """
    check_worker(state, None if launcher else worker)
    pods = objects.list_pods(cluster, state)
    chosen = select_launchers(pods) if launcher else select_workers(pods, worker)
    name = "launcher" if launcher else f"worker {worker}"
    for pod in reversed(chosen):
        for container in list_job_containers(pod):
            if "running" in container.get("state", {}):
                return Container(pod["metadata"]["name"], state.namespace, container["name"])
    if launcher and not state.has_launcher:
        raise NotFound(f"--launcher: job {state.name} has none, because {state.launcher} runs in the workers. Use --worker 0.")
    raise NotFound(f"{name} of job {state.name} is not running (phase {state.phase}); see: {program()} jobs")
