"""The repository to which short image names refer, and the ECR repositories that a stack creates. Performs no I/O."""

from collections.abc import Iterable
from typing import Final

from infra.facts.model import Facts
from infra.facts.registries import build_account_registry
from infra.jobs.images import is_short_image_name, strip_tag_and_digest
from infra.jobs.model import Job
from infra.settings.stack import Settings

PROJECT_IMAGES: Final = (
    *("chainermn", "horovod", "jax", "mpi", "pytorch", "tensorflow"),  # the MPI image, and one image per framework
    *("intel-mpi", "mpi-benchmarks", "mpich", "openmpi", "pytorch-fsdp"),  # images of smoke jobs and workloads
)
"""Images of this project, without tags."""


def find_repository_address(settings: Settings, facts: Facts) -> str | None:
    """Return the repository to which short image names refer; None if the cluster has none."""
    if settings.platform.image_repositories:
        return f"{build_account_registry(facts.caller.account, facts.region, facts.partition)}/{settings.cluster_name}"
    return settings.platform.image_repository


def list_repository_names(jobs: Iterable[Job]) -> list[str]:
    """Return the names of the ECR repositories, without their common prefix, the cluster's name."""
    return sorted({*PROJECT_IMAGES, *(strip_tag_and_digest(job.image) for job in jobs if is_short_image_name(job.image))})
