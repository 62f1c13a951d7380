"""Renders a job as Kubernetes objects, in creation order."""

from collections.abc import Callable
from typing import Any

from infra.jobs import key_exchange, standalone
from infra.jobs.cluster import ClusterDescription
from infra.jobs.controlled import controlled
from infra.jobs.keys import KeyPair, generate
from infra.jobs.model import Job
from infra.jobs.mpijob import mpi_job
from infra.jobs.pieces import Piece
from infra.jobs.pods import Manifest, PlacedJob
from infra.jobs.torchrun import torchrun_job


def render(job: Job, cluster: ClusterDescription, keys: Callable[[], KeyPair] = generate) -> list[Piece]:
    """Return the objects of a valid job: the main object first, and owners before the objects that they own."""
    placed = PlacedJob.of(job, cluster)
    pieces = _pieces(placed, keys)
    return controlled(pieces, placed) if cluster.job_controller else pieces


def _pieces(placed: PlacedJob, keys: Callable[[], KeyPair]) -> list[Piece]:
    match placed.job.launcher:
        case "mpijob":
            return [Piece(mpi_job(placed), None)]
        case "torchrun":
            service, main = torchrun_job(placed)
            return [Piece(main, None), Piece(service)]
        case "standalone":
            return _standalone(placed, keys())


def _standalone(placed: PlacedJob, keys: KeyPair) -> list[Piece]:
    cleans_up = placed.job.clean_pod_policy != "None"
    controller = [*standalone.access(placed), standalone.cleanup_controller(placed)] if cleans_up else []
    return [
        Piece(standalone.launcher(placed), None),
        *([Piece(key_exchange.secret(placed, keys))] if placed.job.key_exchange == "secret" else []),
        Piece(standalone.config(placed)),
        Piece(standalone.service(placed)),
        *map(Piece, controller),
        Piece(standalone.workers(placed), "cleanup controller" if cleans_up else "main"),
    ]


def owner_reference(main: Manifest, uid: Any) -> Manifest:
    """Return an owner reference that does not make the owner a controller.

    Kueue treats objects controlled by a queued job as part of that job and does not queue them separately. Such a Job,
    for example the cleanup controller, would stay suspended forever if it were created before Kueue admits the queued
    job (reconciler.go in Kueue).
    """
    names = {"apiVersion": main["apiVersion"], "kind": main["kind"], "name": main["metadata"]["name"]}
    return {**names, "uid": uid, "controller": False, "blockOwnerDeletion": False}


def of_a_stack(job: Job) -> Job:
    """Return the job without a TTL: jobs of a stack stay until they are removed from the stack file."""
    return job.model_copy(update={"ttl_seconds_after_finished": None})
