"""`gpumpi:platform`: what is installed into a Kubernetes cluster, new or existing."""

from typing import Literal

from pydantic import Field

from infra.naming import JOB_NAMESPACE
from infra.settings.base import Model, Names


class CommonPlatformSettings(Model):
    """What runs in any cluster beside the user's jobs."""

    device_plugin: bool = Field(True, description="NVIDIA's device plugin, which offers GPUs to pods. Change: in place.")
    mpi_operator: bool = Field(
        True, description="Kubeflow's MPI operator, for MPIJobs. Change: in place; false deletes all MPIJobs."
    )
    queue: bool = Field(
        True,
        description="Kueue: a job starts with all of its workers, or waits. Change: in place, and the stack's jobs run once "
        "more; false starts jobs as pods fit, and two large ones can block each other forever.",
    )
    queue_order: Literal["strict", "bestEffort"] = Field(
        "strict",
        description="`strict`: jobs start in order, even if a later one would fit; `bestEffort`: any job that fits starts. "
        "Change: in place.",
    )
    namespaces: Names = Field(
        (JOB_NAMESPACE,),
        description="Namespaces for jobs; the first is the default. Change: in place; removing one deletes its jobs.",
    )
    image_registry: str | None = Field(
        None,
        description="Put before the name of every image, like `mirror.example.com/all`, for air-gapped VPCs. "
        "Change: restarts what the platform runs; jobs submitted later; the stack's jobs run once more.",
    )
    manifest_mirror: str | None = Field(
        None,
        description="A folder or https URL with the upstream manifests, laid out like raw.githubusercontent.com; also read from "
        "the variable GPUMPI_MANIFEST_MIRROR. Change: none, the content is checked.",
    )
    cpu_request_factor: float = Field(
        1.0,
        description="CPU requests of platform and jobs are multiplied by it; below 1 only where small nodes stand for large "
        "ones. Change: restarts what the platform runs; jobs submitted later; the stack's jobs run once more.",
    )


class PlatformSettings(CommonPlatformSettings):
    """What runs in the cluster beside the user's jobs."""

    install: bool | None = Field(
        None,
        description="Whether `pulumi up` installs the platform; by default exactly when the Kubernetes API has a public "
        "endpoint. `true` beside a private one: this machine is inside the network. "
        "Change: false removes it and all jobs, for which the API must be reached one last time.",
    )
    efa_plugin: bool = Field(
        True, description="AWS's EFA device plugin, where a pool has EFA. Change: in place; without it no pod gets EFA."
    )
    autoscaler: bool = Field(
        True,
        description="The cluster autoscaler owns the pools' sizes between `minSize` and `maxSize`; `desiredSize` counts at "
        "creation only. Change: in place; without it pools go to their `desiredSize`.",
    )
    idle_minutes: int = Field(10, description="Minutes that the autoscaler keeps an idle node. Change: in place.")
    transport: Literal["auto", "tcp"] = Field(
        "auto",
        description="Network for MPI between nodes: `auto` is EFA where a pool has it, or an error; `tcp` never uses "
        "EFA. Change: jobs submitted later; the stack's jobs run once more.",
    )
