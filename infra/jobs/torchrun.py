"""Manifests for `launcher: torchrun`: an Indexed Job. Its pods find the first one by DNS name, without MPI or SSH.

https://docs.pytorch.org/docs/stable/elastic/run.html
"""

from typing import Final

from infra.jobs import mpi_environment, rank_environment
from infra.jobs.in_pods import shell
from infra.jobs.mpijob import pod_metadata
from infra.jobs.pods import Manifest, PlacedJob, container, node_variables, on_pool, shared_memory

PORT: Final = 29500


def torchrun_job(placed: PlacedJob) -> list[Manifest]:
    """Return the headless Service, which gives pods DNS names, and the Job."""
    return [_service(placed), _job(placed)]


def _service(placed: PlacedJob) -> Manifest:
    """Return the Service. It also publishes names of pods that are not ready, because ranks look up the first pod while
    it starts."""
    name = placed.job.name
    spec = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {"batch.kubernetes.io/job-name": name},
        "ports": [{"name": "rendezvous", "port": PORT}],
    }
    return {"apiVersion": "v1", "kind": "Service", "metadata": placed.metadata(name, "service"), "spec": spec}


def _job(placed: PlacedJob) -> Manifest:
    job = placed.job
    metadata = placed.metadata(job.name, "job")
    metadata["labels"] |= placed.queue_label
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {
            "completionMode": "Indexed",
            "completions": job.workers,
            "parallelism": job.workers,
            # A lost pod breaks the collectives of all other pods, so every pod of an attempt may fail.
            "backoffLimit": job.backoff_limit * job.workers,
            "podReplacementPolicy": "Failed",
            **({"activeDeadlineSeconds": job.deadline_seconds} if job.deadline_seconds is not None else {}),
            **({"ttlSecondsAfterFinished": job.ttl_seconds} if job.ttl_seconds is not None else {}),
            "template": {"metadata": pod_metadata(placed, "worker"), "spec": _pod(placed)},
        },
    }


def _pod(placed: PlacedJob) -> Manifest:
    more: Manifest = {}
    if placed.job.prepare:
        made = container(placed, "prepare", shell("first_only.sh", *placed.job.prepare), {}, resources=_resources(placed))
        more["initContainers"] = [made]
    return on_pool(placed, [_ranks(placed)], subdomain=placed.job.name, restartPolicy="Never", **more)


def _resources(placed: PlacedJob) -> Manifest:
    return placed.size.resources(placed.cluster.cpu_request_factor)


def _ranks(placed: PlacedJob) -> Manifest:
    job = placed.job
    environment = {
        **rank_environment.of_ranks(placed.pool),
        "GLOO_SOCKET_IFNAME": mpi_environment.INTERFACE,
        # Data loaders fork, which fails with ENOMEM while libfabric holds huge pages: fi_efa(7).
        **({"FI_EFA_USE_HUGE_PAGE": "0"} if placed.pool.nccl_transport == "efa" else {}),
        "MASTER_ADDR": f"{job.name}-0.{job.name}.{placed.namespace.name}.svc",
        "MASTER_PORT": str(PORT),
        "NNODES": str(job.workers),
    }
    made = container(
        placed,
        "worker",
        shell("rendezvous.sh", *_command(placed)),
        environment,
        ports=[{"name": "rendezvous", "containerPort": PORT}],
        resources=_resources(placed),
    )
    made["env"] += node_variables(placed.pool)
    made["volumeMounts"].append(shared_memory())
    return made


def _command(placed: PlacedJob) -> list[str]:
    """Return the `torchrun` command line. rendezvous.sh adds the node rank. PyTorch 1 options have underscores."""
    first, *rest = placed.job.command
    script = [] if first.endswith(".py") or first == "-m" else ["--no_python"]
    return [
        "torchrun",
        f"--nnodes={placed.job.workers}",
        f"--nproc_per_node={placed.job.per_node or placed.size.slots}",
        *script,
        first,
        *rest,
    ]
