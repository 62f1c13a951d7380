"""`launcher: mpijob`: one MPIJob of mpi-operator. https://github.com/kubeflow/mpi-operator (v2beta1)"""

from collections.abc import Callable, Iterator
from typing import ClassVar

from infra.config.problems import Problem
from infra.jobs.cluster import ClusterDescription
from infra.jobs.launchers.mpi import MpiLauncher, build_launcher_container, build_worker_container
from infra.jobs.model import Job, LauncherName, MpiImplementation
from infra.jobs.placed import KeyPair, Manifest, PlacedJob
from infra.jobs.pods import build_user_pod


class MpiJobLauncher(MpiLauncher):
    """mpi-operator creates the launcher, the workers and their keys. Kueue holds the job until all workers fit."""

    name: ClassVar[LauncherName] = "mpijob"
    mpi_implementations: ClassVar[tuple[MpiImplementation, ...]] = ("OpenMPI", "Intel", "MPICH")

    def build(self, placed: PlacedJob, generate_keys: Callable[[], KeyPair]) -> list[Manifest]:
        job = placed.job
        launcher, worker = (
            build_user_pod(placed, container(placed)) for container in (build_launcher_container, build_worker_container)
        )
        run_policy = {
            "cleanPodPolicy": job.clean_pod_policy,
            "backoffLimit": placed.attempts,
            **placed.deadline,
            **placed.ttl_fields,
            **placed.suspend_fields,
        }
        manifest = {
            "apiVersion": "kubeflow.org/v2beta1",
            "kind": "MPIJob",
            "metadata": placed.build_main_metadata(job.name),
            "spec": {
                "slotsPerWorker": placed.size.slots,
                "mpiImplementation": job.mpi_implementation,
                # The operator creates the launcher once all existing workers are ready. A job held by the queue has no
                # workers, so its launcher is created at the same time as the workers (mpi-operator 0.8.2,
                # mpi_job_controller.go), and only launch.sh waits for them.
                "launcherCreationPolicy": "WaitForWorkersReady",
                "sshAuthMountPath": f"{job.home}/.ssh",
                "runPolicy": run_policy,
                "mpiReplicaSpecs": {
                    # One pod per attempt, so that the log of every attempt is kept.
                    "Launcher": {"replicas": 1, "restartPolicy": "Never", "template": launcher},
                    # The operator replaces deleted workers, but not failed workers.
                    "Worker": {"replicas": job.workers, "restartPolicy": "OnFailure", "template": worker},
                },
            },
        }
        return [manifest]

    def check_in_cluster(self, job: Job, cluster: ClusterDescription) -> Iterator[Problem]:
        if not cluster.mpi_operator:
            fix = "Use standalone or torchrun."
            yield Problem("launcher", f"mpijob needs mpi-operator, which {cluster.cluster} does not have. {fix}")
        pool = cluster.pool(job.pool)
        if pool and pool.transport == "infiniband" and job.mpi_implementation == "MPICH":
            fix = "Use OpenMPI or Intel."
            yield Problem("mpiImplementation", f"MPICH is not supported on pool {pool.name}, which uses InfiniBand. {fix}")
