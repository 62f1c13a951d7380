"""`launcher: standalone`: an MPI job without an operator.

The workers are a StatefulSet, and the launcher is a Job. When this Job has ended, the job controller scales the
StatefulSet to zero, so the workers end even if the launcher was killed or its node was lost.
"""

from collections.abc import Callable, Iterator
from typing import ClassVar, Final, get_args

from infra.config.problems import Problem
from infra.jobs import key_exchange, mpi
from infra.jobs.cluster import ClusterDescription, NamespaceDescription
from infra.jobs.containers import PodParts
from infra.jobs.launchers.mpi import LABEL_LIMIT, MpiLauncher, build_launcher_container, build_worker_container
from infra.jobs.model import Job, KeyExchange, LauncherName
from infra.jobs.placed import KeyPair, Manifest, PlacedJob
from infra.jobs.pods import build_user_pod
from infra.jobs.volumes import find_writable_path
from infra.naming import build_job_labels

STATEFUL_SET_LIMIT: Final = 52
"""Kubernetes puts a StatefulSet's name and a hash into a label of at most 63 characters:
https://github.com/kubernetes/kubernetes/issues/64023"""


class StandaloneLauncher(MpiLauncher):
    """Open MPI on a StatefulSet of workers. The launcher's Job is the main object: the job ends when this Job ends."""

    name: ClassVar[LauncherName] = "standalone"
    starts_before_workers: ClassVar[bool] = True
    key_exchanges: ClassVar[tuple[KeyExchange, ...]] = get_args(KeyExchange)

    def build(self, placed: PlacedJob, generate_keys: Callable[[], KeyPair]) -> list[Manifest]:
        uses_secret = placed.job.key_exchange == "secret"
        secret = [key_exchange.build_secret(placed, generate_keys())] if uses_secret else []
        # A worker's DNS name exists once the worker is ready, and the launcher waits for all names.
        service = placed.build_service(build_job_labels(placed.name, role="worker"), "ssh", mpi.SSH_PORT)
        return [_build_launcher_job(placed), *secret, _build_hostfile_config_map(placed), service, _build_worker_set(placed)]

    def list_longest_names(self, job: Job) -> Iterator[tuple[str, int]]:
        yield _worker_set_name(job), STATEFUL_SET_LIMIT
        yield launcher_name(job.name), LABEL_LIMIT
        yield from super().list_longest_names(job)

    def check_in_cluster(self, job: Job, cluster: ClusterDescription) -> Iterator[Problem]:
        namespace = cluster.namespace(job.namespace) or NamespaceDescription()
        if job.key_exchange == "s3" and not namespace.key_bucket:
            fix = "Use secret or volume."
            message = "s3 needs the key bucket that stacks with target eks create, and this cluster has none."
            yield Problem("keyExchange", f"{message} {fix}")
        if job.key_exchange == "volume" and find_writable_path(job, namespace) is None:
            fix = "List a ReadWriteMany volume under volumes, or use secret."
            yield Problem("keyExchange", f"volume needs a writable volume, but the job has none. {fix}")
        if job.key_exchange == "volume" and job.clean_pod_policy == "None":
            fix = "Use Running, or keyExchange: secret."
            yield Problem(
                "cleanPodPolicy", f"None leaves the key on the volume, because the remaining workers need the key. {fix}"
            )

    def check_size(self, placed: PlacedJob) -> Iterator[Problem]:
        least = 2 * key_exchange.FOLLOWER_MEMORY_MIB
        if placed.job.key_exchange == "s3" and placed.size.memory_mib < least:
            fix = f"Raise it to {least}Mi, or use keyExchange: secret."
            message = f"{placed.size.memory_mib} MiB leaves no room for the sidecar of keyExchange s3. {fix}"
            yield Problem("resources.memory", message)


def launcher_name(job: str) -> str:
    return f"{job}-launcher"


def _worker_set_name(job: Job) -> str:
    return f"{job.name}-worker"


def _build_launcher_job(placed: PlacedJob) -> Manifest:
    job = placed.job
    hosts = {"name": "hosts", "configMap": {"name": f"{job.name}-config"}}
    mount = {"name": "hosts", "mountPath": mpi.HOSTFILE_DIRECTORY, "readOnly": True}
    # Hide the GPUs, which belong to the workers: some container runtimes expose all GPUs by default.
    no_gpus = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}
    parts = PodParts(variables=(no_gpus,), mounts=(mount,), volumes=(hosts,)) + key_exchange.build_pod_parts(placed, "launcher")
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": placed.build_main_metadata(launcher_name(job.name)),
        "spec": {
            # The job controller watches the deadline, which would include the workers' time in the queue.
            "backoffLimit": placed.attempts,
            "podReplacementPolicy": "Failed",
            **placed.ttl_fields,
            **placed.suspend_fields,
            "template": build_user_pod(placed, build_launcher_container(placed, parts), restartPolicy="Never"),
        },
    }


def _build_worker_set(placed: PlacedJob) -> Manifest:
    """Return the workers' StatefulSet. It creates all workers at once, after `setup`, and replaces lost workers while the
    job runs. Kueue admits the workers as a group."""
    job = placed.job
    worker = build_worker_container(key_exchange.deduct_sidecar_resources(placed), key_exchange.build_pod_parts(placed, "worker"))
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": placed.build_queued_metadata(_worker_set_name(job), "workers"),
        "spec": {
            "serviceName": job.name,
            "replicas": 0 if job.setup else job.workers,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": build_job_labels(job.name, role="worker")},
            "template": build_user_pod(placed, worker),
        },
    }


def _build_hostfile_config_map(placed: PlacedJob) -> Manifest:
    job = placed.job
    hosts = [mpi.host_name(job.name, placed.namespace.name, number) for number in range(job.workers)]
    metadata = placed.metadata(f"{job.name}-config", "config")
    content = mpi.format_hostfile(hosts, placed.size.slots)
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"hostfile": content}}
