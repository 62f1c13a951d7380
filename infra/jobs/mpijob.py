"""Manifests for `launcher: mpijob`: one MPIJob of mpi-operator. https://github.com/kubeflow/mpi-operator (v2beta1)"""

from infra.jobs import command, hostfile, mpi_environment, rank_environment
from infra.jobs.in_pods import shell
from infra.jobs.pod_templates import overridden
from infra.jobs.pods import (
    NODE_NAME,
    SAFE_TO_EVICT,
    SSH_PORT,
    Manifest,
    PlacedJob,
    container,
    launcher_pod,
    launcher_resources,
    on_pool,
    shared_memory,
    ssh_probes,
)
from infra.naming import job_labels


def mpi_job(placed: PlacedJob) -> Manifest:
    """Return the MPIJob. The launcher waits until the workers are ready; Kueue holds the job until all workers fit."""
    job, size = placed.job, placed.size
    policy = {
        "cleanPodPolicy": job.clean_pod_policy,
        "backoffLimit": job.max_restarts,
        **placed.time_limits,
    }
    metadata = placed.queued_metadata(job.name, "job")
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": metadata,
        "spec": {
            "slotsPerWorker": size.slots,
            "mpiImplementation": job.mpi_implementation,
            # The operator creates the launcher once all existing workers are ready. A job held by the queue has no
            # workers, so its launcher is created at the same time as the workers (mpi-operator 0.8.2,
            # mpi_job_controller.go), and only launch.sh waits for them.
            "launcherCreationPolicy": "WaitForWorkersReady",
            "sshAuthMountPath": f"{job.home}/.ssh",
            "runPolicy": policy,
            "mpiReplicaSpecs": {
                # One pod per attempt, so that the log of every attempt is kept.
                "Launcher": {"replicas": 1, "restartPolicy": "Never", "template": _launcher(placed)},
                # The operator replaces deleted workers, but not failed workers.
                "Worker": {"replicas": job.workers, "restartPolicy": "OnFailure", "template": _worker(placed)},
            },
        },
    }


def _launcher(placed: PlacedJob) -> Manifest:
    main = launcher_container(placed)
    template = {"metadata": pod_metadata(placed, "launcher"), "spec": launcher_pod(placed, [main], **prepared(placed))}
    return overridden(placed, "launcher", template)


def _worker(placed: PlacedJob) -> Manifest:
    template = {"metadata": pod_metadata(placed, "worker"), "spec": on_pool(placed, [worker_container(placed)])}
    return overridden(placed, "worker", template)


# --- shared with `launcher: standalone` --------------------------------------------------------------------------------


def pod_metadata(placed: PlacedJob, role: str) -> Manifest:
    return {"labels": job_labels(placed.job.name, placed.job.launcher, role), "annotations": dict(SAFE_TO_EVICT)}


def launcher_container(placed: PlacedJob, **more: object) -> Manifest:
    """Return the container that waits for the workers' DNS names, then starts the ranks."""
    job, size = placed.job, placed.size
    shared_cpus = placed.cluster.cpu_request_factor < 1
    of_ranks = _of_ranks(placed)
    of_launcher = mpi_environment.of_launcher(job.mpi_implementation, size.slots, placed.pool.transport, shared_cpus=shared_cpus)
    forwarded = list(dict.fromkeys([*of_ranks, *job.env, *job.secret_env]))
    line = command.mpirun(job, placed.namespace.name, size.slots, forwarded)
    return container(
        placed,
        "launcher",
        shell("launch.sh", *line),
        {**of_launcher, **of_ranks},
        resources=launcher_resources(placed.cluster.cpu_request_factor),
        **more,
    )


def prepared(placed: PlacedJob) -> Manifest:
    """Return the init container for `setup`, which runs once before the ranks."""
    if not placed.prepares:
        return {}
    resources = launcher_resources(placed.cluster.cpu_request_factor)
    return {"initContainers": [container(placed, "prepare", shell("prepare.sh", *placed.job.setup), {}, resources=resources)]}


def worker_container(placed: PlacedJob) -> Manifest:
    """Return the worker's container, which runs sshd. The launcher starts ranks over SSH."""
    made = container(
        placed,
        "worker",
        shell("serve.sh", hostfile.host(placed.job.name, placed.namespace.name, 0)),
        {**_of_ranks(placed), rank_environment.STOP_SIGNAL: placed.job.checkpoint_signal.removeprefix("SIG")},
        ports=[{"name": "ssh", "containerPort": SSH_PORT}],
        resources=placed.size.resources(placed.cluster.cpu_request_factor),
        **ssh_probes(),
    )
    made["env"].append(NODE_NAME)
    made["volumeMounts"].append(shared_memory())
    return made


def _of_ranks(placed: PlacedJob) -> dict[str, str]:
    """Return the environment variables of the ranks. rank.sh adds those that differ from rank to rank."""
    job = placed.job
    first = job.hosts[0] if job.hosts else 0
    return {
        **mpi_environment.of_ranks(job.mpi_implementation, placed.pool),
        "MASTER_ADDR": hostfile.host(job.name, placed.namespace.name, first),
        "MASTER_PORT": str(rank_environment.MASTER_PORT),
    }
