"""Import Kubernetes Jobs (`batch/v1`).

https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/job-v1/
"""

from cli.jobs.importing import containers
from cli.jobs.importing.draft import Draft
from cli.jobs.importing.pytorchjob import describe_rank_start
from cli.jobs.importing.source import Source
from infra.jobs import starters


def read_job(draft: Draft, source: Source) -> None:
    """Read the job. The job's pods become workers, with one rank per worker unless the command starts more."""
    containers.read_metadata(draft, source)
    spec = source.get_field("spec")
    parallel = spec.get_field("parallelism").value or 1
    # Without completions, a Job runs `parallelism` pods at once:
    # https://kubernetes.io/docs/concepts/workloads/controllers/job/#parallel-jobs
    pods = spec.get_field("completions").value or parallel
    spec.take("completions")
    if parallel == pods:
        spec.take("parallelism")
    else:
        spec.note_changed_field("parallelism", to=f"{pods}, because all workers of a job run at the same time")
    draft.set("workers", pods)
    draft.set("activeDeadlineSeconds", spec.take("activeDeadlineSeconds"))
    draft.set("ttlSecondsAfterFinished", spec.take("ttlSecondsAfterFinished"))
    draft.set("maxRestarts", spec.take("backoffLimit"))
    spec.take("completionMode")
    spec.note_dropped_field("suspend", why="the queue suspends the job until it fits")
    for key in ("podFailurePolicy", "successPolicy", "backoffLimitPerIndex", "maxFailedIndexes", "podReplacementPolicy"):
        spec.note_dropped_field(key, why="a job fails or succeeds as a whole")
    containers.read_template_metadata(draft, spec.get_field("template"))
    pod = spec.get_field("template", "spec")
    main = containers.read_pod(pod)
    containers.read_worker_template(draft, pod, main)
    _read_command(draft, main)


def _read_command(draft: Draft, main: Source) -> None:
    words = containers.read_command(main)
    mpi = starters.find_any_mpi_starter(words)
    if mpi:
        draft.set("launcher", "mpijob", f"the command starts {mpi}, which needs workers with sshd")
        comment = f"{mpi} runs once, in the launcher"
    else:
        why = (
            ""
            if starters.find_torch_starter(words)
            else "; the image needs PyTorch. A Job that does not need it runs unchanged: kubectl apply"
        )
        draft.set("launcher", "torchrun", f"workers without SSH{why}")
        comment = describe_rank_start(words)
    draft.set("command", words or None, comment)
    if not mpi and not starters.find_torch_starter(words):
        draft.set("slots", 1, "one process per pod, as before")
