"""Rules for a stack's jobs. These are the rules of `scripts/cluster submit`, but they run before Pulumi creates anything."""

from collections.abc import Iterator

from infra.config.messages import format_value
from infra.config.problems import Problem
from infra.facts.model import Facts
from infra.jobs.cluster import ClusterDescription
from infra.jobs.validation import check_job
from infra.plan.cluster_description import describe_eks_cluster
from infra.plan.eks_pools import plan_pools
from infra.settings.stack import Settings
from infra.validation.registry import EKS, KUBERNETES, AnyStack, Topic, register_rule


@register_rule(target=EKS)
def check_jobs_have_platform(settings: Settings) -> Iterator[Problem]:
    if settings.jobs and not settings.installs_platform:
        why = "is false" if settings.platform.install is False else "is false by default without a public endpoint"
        yield Problem("jobs", f"require the platform, but platform.install {why}. Set it to true, or remove the jobs.")


@register_rule(target=KUBERNETES)
def check_job_names(settings: AnyStack) -> Iterator[Problem]:
    default = next(iter(settings.platform.namespace_names), None)
    path_of: dict[tuple[str | None, str], str] = {}
    for index, job in enumerate(settings.jobs):
        path = f"jobs[{index}]"
        key = (job.namespace or default, job.name)
        if key in path_of:
            yield Problem(f"{path}.name", f"{format_value(job.name)} is already the name of {path_of[key]}. Choose another.")
        path_of.setdefault(key, path)


@register_rule(Topic.JOBS, target=EKS, applies=lambda settings: bool(settings.jobs))
def check_jobs_fit(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """Check that the pools can run the jobs. Skip this check if the pools cannot be planned."""
    try:
        cluster = describe_eks_cluster(settings, facts, plan_pools(settings, facts))
    except LookupError:
        return
    yield from check_jobs(settings, cluster)


def check_jobs(settings: AnyStack, cluster: ClusterDescription) -> Iterator[Problem]:
    """Apply the rules of `scripts/cluster submit` to each job of a stack."""
    for index, job in enumerate(settings.jobs):
        yield from check_job(job, cluster, f"jobs[{index}]")
        if job.workdir is not None:
            fix = "Remove it and build the code into the image, or submit the job with `scripts/cluster submit`."
            yield Problem(f"jobs[{index}].workdir", f"is a folder on your machine, which `pulumi up` does not send. {fix}")
        if job.namespace is not None and job.namespace not in settings.platform.namespace_names:
            yield Problem(
                f"jobs[{index}].namespace", f"{format_value(job.namespace)} is not in platform.namespaces. Add it there."
            )
