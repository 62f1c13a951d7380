"""`launcher: mpijob`: one MPIJob of mpi-operator. https://github.com/kubeflow/mpi-operator (v2beta1)"""

from infra.jobs import command, mpi_environment
from infra.jobs.in_pods import shell
from infra.jobs.pods import (
    SAFE_TO_EVICT,
    SSH_PORT,
    Manifest,
    World,
    container,
    launcher_pod,
    launcher_resources,
    node_variables,
    on_pool,
    shared_memory,
    ssh_probes,
)
from infra.naming import job_labels


def mpi_job(world: World) -> Manifest:
    """The MPIJob. It waits until its workers are ready; Kueue holds it back until all of them have a place."""
    job, size = world.job, world.size
    policy = {
        "cleanPodPolicy": job.clean_pod_policy,
        "backoffLimit": job.backoff_limit,
        **({"activeDeadlineSeconds": job.deadline_seconds} if job.deadline_seconds is not None else {}),
        **({"ttlSecondsAfterFinished": job.ttl_seconds} if job.ttl_seconds is not None else {}),
    }
    metadata = world.metadata(job.name, "job")
    metadata["labels"] |= world.queue_label
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": metadata,
        "spec": {
            "slotsPerWorker": size.slots,
            "mpiImplementation": job.mpi_implementation,
            # The operator compares ready workers with workers, which for a job that the queue holds back is 0 of 0: then the
            # launcher comes with the workers (mpi-operator 0.8.2, mpi_job_controller.go), and launch.sh alone waits for them
            "launcherCreationPolicy": "WaitForWorkersReady",
            "sshAuthMountPath": f"{job.home}/.ssh",
            "runPolicy": policy,
            "mpiReplicaSpecs": {
                # A pod for every attempt, so that each keeps its log
                "Launcher": {"replicas": 1, "restartPolicy": "Never", "template": _launcher(world)},
                # The operator replaces a worker that is gone, but not one that failed
                "Worker": {"replicas": job.workers, "restartPolicy": "OnFailure", "template": _worker(world)},
            },
        },
    }


def _launcher(world: World) -> Manifest:
    main = launcher_container(world)
    return {"metadata": pod_metadata(world, "launcher"), "spec": launcher_pod(world, [main], **prepared(world))}


def _worker(world: World) -> Manifest:
    return {"metadata": pod_metadata(world, "worker"), "spec": on_pool(world, [worker_container(world)])}


# --- what it shares with the launcher without an operator ---------------------------------------------------------------


def pod_metadata(world: World, role: str) -> Manifest:
    return {"labels": job_labels(world.job.name, world.job.launcher, role), "annotations": dict(SAFE_TO_EVICT)}


def launcher_container(world: World, **more: object) -> Manifest:
    """Waits for the workers' names, then starts the ranks."""
    job, size = world.job, world.size
    shared_cpus = world.cluster.cpu_request_factor < 1
    of_ranks = mpi_environment.of_ranks(job.mpi_implementation, world.pool.transport)
    of_launcher = mpi_environment.of_launcher(job.mpi_implementation, size.slots, world.pool.transport, shared_cpus=shared_cpus)
    forwarded = list(dict.fromkeys([*of_ranks, *job.env, *job.secret_env]))
    line = command.mpirun(job, world.namespace.name, size.slots, forwarded)
    return container(
        world,
        "launcher",
        shell("launch.sh", *line),
        {**of_launcher, **of_ranks},
        resources=launcher_resources(world.cluster.cpu_request_factor),
        **more,
    )


def prepared(world: World) -> Manifest:
    """What runs once before the ranks: an init container of the launcher."""
    if not world.job.prepare:
        return {}
    resources = launcher_resources(world.cluster.cpu_request_factor)
    return {"initContainers": [container(world, "prepare", world.job.prepare, {}, resources=resources)]}


def worker_container(world: World) -> Manifest:
    """sshd; ranks come through it."""
    made = container(
        world,
        "worker",
        shell("serve.sh"),
        mpi_environment.of_ranks(world.job.mpi_implementation, world.pool.transport),
        ports=[{"name": "ssh", "containerPort": SSH_PORT}],
        resources=world.size.resources(world.cluster.cpu_request_factor),
        **ssh_probes(),
    )
    made["env"] += node_variables(world.pool)
    made["volumeMounts"].append(shared_memory())
    return made
