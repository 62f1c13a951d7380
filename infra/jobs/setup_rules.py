"""Rules for `setup` and for restarts."""

from collections.abc import Callable, Iterator

from infra.config.messages import shown
from infra.config.problems import Problem
from infra.jobs.cluster import ClusterDescription
from infra.jobs.model import Job
from infra.jobs.pods import writable_path
from infra.jobs.quantities import bytes_of, millis_of


def alone(job: Job) -> Iterator[Problem]:
    """Check the fields for `setup`, and the exit codes in `noRetryExitCodes`."""
    understood: tuple[tuple[str, str, Callable[[str], int], str], ...] = (
        ("cpu", job.setup_resources.cpu, millis_of, "500m or 8"),
        ("memory", job.setup_resources.memory, bytes_of, "64Gi"),
    )
    for key, value, parse, example in understood:
        if not _is_positive(value, parse):
            yield Problem(f"setupResources.{key}", f"{shown(value)} is not a quantity. Use one such as {example}.")
    if job.setup_deadline_seconds < 1:
        yield Problem("setupDeadlineSeconds", f"{job.setup_deadline_seconds} is too small. Use at least 1.")
    for index, code in enumerate(job.no_retry_exit_codes):
        if not 1 <= code <= 255:
            yield Problem(f"noRetryExitCodes[{index}]", f"{code} is not an exit code of a failure. Use 1 to 255.")


def _is_positive(value: str, parse: Callable[[str], int]) -> bool:
    try:
        return parse(value) > 0
    except ValueError:
        return False


def controller(job: Job, cluster: ClusterDescription) -> Iterator[Problem]:
    """Reject fields that need the job controller."""
    if cluster.job_controller:
        return
    fix = "Set platform.jobController in the stack file, or remove the field."
    for name in ("setup_resources", "setup_deadline_seconds", "no_retry_exit_codes", "progress"):
        field = type(job).model_fields[name]
        if getattr(job, name) != field.default:
            yield Problem(str(field.alias), f"needs the job controller, which the cluster does not have. {fix}")


def volume(job: Job, cluster: ClusterDescription) -> Iterator[Problem]:
    """Reject `setup` without a writable volume: `setup` runs in its own pod, so ranks see only files that it writes to
    volumes."""
    space = cluster.namespace(job.namespace)
    if job.setup and cluster.job_controller and space is not None and writable_path(job, space) is None:
        fix = "Add a volume without readOnly to volumes, or remove setup."
        yield Problem("setup", f"needs a writable volume: only what it writes to volumes reaches the ranks. {fix}")
