"""`launcher: torchrun`: an Indexed Job whose pods find the first of them by name. No MPI, no SSH.

https://docs.pytorch.org/docs/stable/elastic/run.html
"""

from typing import Final

from infra.jobs import mpi_environment
from infra.jobs.in_pods import shell
from infra.jobs.mpijob import pod_metadata
from infra.jobs.pods import Manifest, World, container, node_variables, on_pool, shared_memory

PORT: Final = 29500


def torchrun_job(world: World) -> list[Manifest]:
    """The headless Service that gives pods their names, and the Job."""
    return [_service(world), _job(world)]


def _service(world: World) -> Manifest:
    """Names exist before their pods are ready: the ranks look for the first one while it starts."""
    name = world.job.name
    spec = {
        "clusterIP": "None",
        "publishNotReadyAddresses": True,
        "selector": {"batch.kubernetes.io/job-name": name},
        "ports": [{"name": "rendezvous", "port": PORT}],
    }
    return {"apiVersion": "v1", "kind": "Service", "metadata": world.metadata(name, "service"), "spec": spec}


def _job(world: World) -> Manifest:
    job = world.job
    metadata = world.metadata(job.name, "job")
    metadata["labels"] |= world.queue_label
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {
            "completionMode": "Indexed",
            "completions": job.workers,
            "parallelism": job.workers,
            # One lost pod ends the others' collective too: every pod of an attempt may fail
            "backoffLimit": job.backoff_limit * job.workers,
            "podReplacementPolicy": "Failed",
            **({"activeDeadlineSeconds": job.deadline_seconds} if job.deadline_seconds is not None else {}),
            **({"ttlSecondsAfterFinished": job.ttl_seconds} if job.ttl_seconds is not None else {}),
            "template": {"metadata": pod_metadata(world, "worker"), "spec": _pod(world)},
        },
    }


def _pod(world: World) -> Manifest:
    more: Manifest = {}
    if world.job.prepare:
        made = container(world, "prepare", shell("first_only.sh", *world.job.prepare), {}, resources=_resources(world))
        more["initContainers"] = [made]
    return on_pool(world, [_ranks(world)], subdomain=world.job.name, restartPolicy="Never", **more)


def _resources(world: World) -> Manifest:
    return world.size.resources(world.cluster.cpu_request_factor)


def _ranks(world: World) -> Manifest:
    job = world.job
    environment = {
        **mpi_environment.NCCL,
        "GLOO_SOCKET_IFNAME": mpi_environment.INTERFACE,
        **({"FI_PROVIDER": "efa"} if world.pool.transport == "efa" else {}),
        "MASTER_ADDR": f"{job.name}-0.{job.name}.{world.namespace.name}.svc",
        "MASTER_PORT": str(PORT),
        "NNODES": str(job.workers),
    }
    made = container(
        world,
        "worker",
        shell("rendezvous.sh", *_command(world)),
        environment,
        ports=[{"name": "rendezvous", "containerPort": PORT}],
        resources=_resources(world),
    )
    made["env"] += node_variables(world.pool)
    made["volumeMounts"].append(shared_memory())
    return made


def _command(world: World) -> list[str]:
    """`torchrun` before the program; the script adds which node this is. Before PyTorch 2 its options had no hyphens."""
    first, *rest = world.job.command
    script = [] if first.endswith(".py") or first == "-m" else ["--no_python"]
    return [
        "torchrun",
        f"--nnodes={world.job.workers}",
        f"--nproc_per_node={world.job.per_node or world.size.slots}",
        *script,
        first,
        *rest,
    ]
