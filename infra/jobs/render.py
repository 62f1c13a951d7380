"""A job as the objects that Kubernetes gets, in the order in which they are made."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from infra.jobs import key_exchange, openmpi
from infra.jobs.cluster import ClusterDescription
from infra.jobs.keys import KeyPair, fresh
from infra.jobs.model import Job
from infra.jobs.mpijob import mpi_job
from infra.jobs.pods import Manifest, World
from infra.jobs.torchrun import torchrun_job

Owner = Literal["main", "keeper"]


@dataclass(frozen=True)
class Piece:
    """One object of a job."""

    manifest: Manifest
    owner: Owner | None = "main"
    """Whose end is its end; None for the object that is the job."""

    @property
    def key(self) -> str:
        return f"{self.manifest['kind']}/{self.manifest['metadata']['name']}"


def render(job: Job, cluster: ClusterDescription, keys: Callable[[], KeyPair] = fresh) -> list[Piece]:
    """The objects of a valid job: first the one that is the job, its owner's before each other one."""
    world = World.of(job, cluster)
    match job.launcher:
        case "mpijob":
            return [Piece(mpi_job(world), None)]
        case "torchrun":
            service, main = torchrun_job(world)
            return [Piece(main, None), Piece(service)]
        case "openmpi":
            return _openmpi(world, keys())


def _openmpi(world: World, keys: KeyPair) -> list[Piece]:
    keeps = world.job.clean_pod_policy != "None"
    keeper = [*openmpi.access(world), openmpi.keeper(world)] if keeps else []
    return [
        Piece(openmpi.launcher(world), None),
        *([Piece(key_exchange.secret(world, keys))] if world.job.key_exchange == "secret" else []),
        Piece(openmpi.config(world)),
        Piece(openmpi.service(world)),
        *map(Piece, keeper),
        Piece(openmpi.workers(world), "keeper" if keeps else "main"),
    ]


def owner_reference(main: Manifest, uid: Any) -> Manifest:
    """The reference to an object with whose end another one ends: an owner, and no controller.

    What a queued job controls Kueue takes for a part of it, which does not wait in the queue; and a Job among that, as the
    keeper, is suspended for ever when it comes before the admission (reconciler.go there).
    """
    names = {"apiVersion": main["apiVersion"], "kind": main["kind"], "name": main["metadata"]["name"]}
    return {**names, "uid": uid, "controller": False, "blockOwnerDeletion": False}


def of_a_stack(job: Job) -> Job:
    """A job that a stack owns stays until it leaves the stack file."""
    return job.model_copy(update={"ttl_seconds": None})
