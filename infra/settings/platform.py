"""`gpumpi:platform`: the software installed into a Kubernetes cluster, new or existing."""

from typing import Literal

from pydantic import Field

from infra.naming import JOB_NAMESPACE
from infra.settings.base import Model, Names

TransportChoice = Literal["auto", "nccl", "tcp"]


class CommonPlatformSettings(Model):
    """Platform settings for all Kubernetes clusters."""

    device_plugin: bool = Field(True, description="NVIDIA's device plugin, which makes GPUs available to pods. Change: in place.")
    mpi_operator: bool = Field(
        True, description="Kubeflow's MPI operator, for MPIJobs. Change: in place; false deletes all MPIJobs."
    )
    queue: bool = Field(
        True,
        description="Kueue: a job starts only when all of its workers fit. Change: in place, and the stack's jobs run again; "
        "with false, pods start as they fit, and two large jobs can block each other forever.",
    )
    queue_order: Literal["strict", "bestEffort"] = Field(
        "strict",
        description="`strict`: jobs start in queue order, even if a later one would fit; `bestEffort`: any job that fits starts. "
        "Change: in place.",
    )
    namespaces: Names = Field(
        (JOB_NAMESPACE,),
        description="Namespaces for jobs; the first is the default. Change: in place; removing one deletes its jobs.",
    )
    image_registry: str | None = Field(
        None,
        description="Prefix of all image names, such as `mirror.example.com/all`, for air-gapped VPCs. "
        "Change: restarts the platform's pods; affects jobs submitted later; the stack's jobs run again.",
    )
    manifest_mirror: str | None = Field(
        None,
        description="Directory or https URL with the upstream manifests, laid out like raw.githubusercontent.com; by default the "
        "value of the environment variable GPUMPI_MANIFEST_MIRROR. Change: no effect, because manifests are verified by hash.",
    )
    cpu_request_factor: float = Field(
        1.0,
        description="Multiplier for the CPU requests of the platform and jobs; below 1 only where small nodes stand in for large "
        "ones. Change: restarts the platform's pods; affects jobs submitted later; the stack's jobs run again.",
    )


class PlatformSettings(CommonPlatformSettings):
    """Platform settings for EKS clusters."""

    install: bool | None = Field(
        None,
        description="Whether `pulumi up` installs the platform; by default only if the Kubernetes API has a public endpoint. "
        "With a private endpoint, set `true` only where `pulumi up` runs inside the network. "
        "Change: false removes the platform and all jobs, which requires access to the API one last time.",
    )
    efa_plugin: bool = Field(
        True, description="AWS's EFA device plugin, if a pool has EFA. Change: in place; without it, no pod gets EFA."
    )
    autoscaler: bool = Field(
        True,
        description="The cluster autoscaler scales pools between `minSize` and `maxSize`; `desiredSize` then applies only at "
        "creation. Change: in place; without it, pools scale to their `desiredSize`.",
    )
    idle_minutes: int = Field(10, description="Minutes before the autoscaler removes an idle node. Change: in place.")
    transport: TransportChoice = Field(
        "auto",
        description="Network for MPI and NCCL between nodes. `auto`: both require EFA on pools that have it, and use TCP on "
        "others. `nccl`: NCCL requires EFA, and MPI, which then only starts the ranks, uses TCP. `tcp`: neither uses EFA. "
        "Change: affects jobs submitted later; the stack's jobs run again.",
    )
