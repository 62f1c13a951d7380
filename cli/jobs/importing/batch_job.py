"""Import Kubernetes Jobs (`batch/v1`).

https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/job-v1/
"""

from cli.jobs.importing import containers
from cli.jobs.importing.draft import Draft
from cli.jobs.importing.pytorchjob import how
from cli.jobs.importing.source import Source
from infra.jobs import starters


def read(draft: Draft, source: Source) -> None:
    """Read the job. The job's pods become workers, with one rank per worker unless the command starts more."""
    containers.metadata(draft, source)
    spec = source.at("spec")
    parallel = spec.at("parallelism").value or 1
    # Without completions, a Job runs `parallelism` pods at once:
    # https://kubernetes.io/docs/concepts/workloads/controllers/job/#parallel-jobs
    pods = spec.at("completions").value or parallel
    spec.take("completions")
    if parallel == pods:
        spec.take("parallelism")
    else:
        spec.change("parallelism", to=f"{pods}, because all workers of a job run at the same time")
    draft.set("workers", pods)
    draft.set("activeDeadlineSeconds", spec.take("activeDeadlineSeconds"))
    draft.set("ttlSecondsAfterFinished", spec.take("ttlSecondsAfterFinished"))
    draft.set("maxRestarts", spec.take("backoffLimit"))
    spec.take("completionMode")
    spec.drop("suspend", why="the queue suspends the job until it fits")
    for key in ("podFailurePolicy", "successPolicy", "backoffLimitPerIndex", "maxFailedIndexes", "podReplacementPolicy"):
        spec.drop(key, why="a job fails or succeeds as a whole")
    containers.template_metadata(draft, spec.at("template"))
    pod = spec.at("template", "spec")
    main = containers.pod(pod)
    containers.workers(draft, pod, main)
    _command(draft, main)


def _command(draft: Draft, main: Source) -> None:
    words = containers.command(main)
    mpi = starters.mpi_of(words)
    if mpi:
        draft.set("launcher", "mpijob", f"the command starts {mpi}, which needs workers with sshd")
        comment = f"{mpi} runs once, in the launcher"
    else:
        why = (
            ""
            if starters.torch_starter(words)
            else "; the image needs PyTorch. A Job that does not need it runs unchanged: kubectl apply"
        )
        draft.set("launcher", "torchrun", f"workers without SSH{why}")
        comment = how(words)
    draft.set("command", words or None, comment)
    if not mpi and not starters.torch_starter(words):
        draft.set("slots", 1, "one process per pod, as before")
