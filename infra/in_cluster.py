"""What a stack says of the things inside its Kubernetes cluster, whoever made the cluster. Part of `infra.settings`."""

from typing import Literal

from pydantic import Field

from infra.model import Model, Names
from infra.naming import JOB_NAMESPACE


class InCluster(Model):
    """What runs in any cluster beside the user's jobs."""

    device_plugin: bool = Field(True, description="NVIDIA's device plugin, which offers GPUs to pods. Change: in place.")
    mpi_operator: bool = Field(
        True, description="Kubeflow's MPI operator, for MPIJobs. Change: in place; false deletes all MPIJobs."
    )
    queue: bool = Field(
        True,
        description="Kueue: a job starts whole or waits whole. Change: in place, and the stack's jobs run once more; false "
        "starts jobs as pods fit, and two large ones can wait for each other for ever.",
    )
    queue_order: Literal["strict", "bestEffort"] = Field(
        "strict",
        description="`strict`: nobody overtakes a job that waits; `bestEffort`: whoever fits goes first. Change: in place.",
    )
    namespaces: Names = Field(
        (JOB_NAMESPACE,),
        description="Namespaces for jobs; who names none submits to the first. Change: in place; removing one deletes its jobs.",
    )
    image_registry: str | None = Field(
        None,
        description="Put before the name of every image, like `mirror.example.com/all`, for closed networks. "
        "Change: restarts what the platform runs; jobs submitted later; the stack's jobs run once more.",
    )
    manifest_mirror: str | None = Field(
        None,
        description="A folder or https address that holds upstream's manifests as raw.githubusercontent.com does; so does the "
        "variable GPUMPI_MANIFEST_MIRROR. Change: none, the content is checked.",
    )
    cpu_request_factor: float = Field(
        1.0,
        description="CPU requests of platform and jobs are multiplied by it; below 1 only where small nodes stand for large "
        "ones. Change: restarts what the platform runs; jobs submitted later; the stack's jobs run once more.",
    )
