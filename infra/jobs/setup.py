"""`setup` of a job: a Job that runs before the ranks, with the same environment and volumes."""

from collections.abc import Iterator

from infra.config.problems import Problem
from infra.jobs.cluster import ClusterDescription
from infra.jobs.containers import UserContainer
from infra.jobs.model import Job
from infra.jobs.placed import Manifest, PlacedJob
from infra.jobs.pods import build_user_pod
from infra.jobs.sizing import build_resources, check_quantity, parse_millicores
from infra.jobs.volumes import find_writable_path


def build_setup_job(placed: PlacedJob) -> Manifest:
    """Return the Job that runs `setup`. The queue admits this Job separately from the ranks, so `setup` may take longer
    than 30 minutes. After that time, the queue evicts a job if not all of its pods are ready."""
    job, amounts = placed.job, placed.job.setup_resources
    exact, factor = {"memory": amounts.memory}, placed.cluster.cpu_request_factor
    size = build_resources(parse_millicores(amounts.cpu), amounts.cpu, exact, factor)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": placed.build_queued_metadata(f"{job.name}-setup", "setup"),
        "spec": {
            "backoffLimit": job.max_restarts,
            "podReplacementPolicy": "Failed",
            "activeDeadlineSeconds": job.setup_deadline_seconds,
            "template": build_user_pod(placed, UserContainer("setup", "setup.sh", job.setup, size), restartPolicy="Never"),
        },
    }


def check_setup_settings(job: Job) -> Iterator[Problem]:
    if job.setup and not job.setup[0]:
        yield Problem("setup", "begins with an empty string. Use a command such as [pip, install, --target, /shared/lib, numpy].")
    yield from check_quantity("setupResources.cpu", job.setup_resources.cpu)
    yield from check_quantity("setupResources.memory", job.setup_resources.memory)


def check_setup_volume(job: Job, cluster: ClusterDescription) -> Iterator[Problem]:
    """Reject `setup` without a writable volume: `setup` runs in its own pod, so ranks see only files that it writes to
    volumes."""
    namespace = cluster.namespace(job.namespace)
    if job.setup and namespace is not None and find_writable_path(job, namespace) is None:
        fix = "Add a volume without readOnly to volumes, or remove setup."
        yield Problem("setup", f"needs a writable volume: only what it writes to volumes reaches the ranks. {fix}")
