"""Manifests for `launcher: standalone`: an MPI job without an operator.

The workers are a StatefulSet and the launcher is a Job. Another Job, the cleanup controller, owns the StatefulSet. The
controller has permission only to read pods. It waits until the launcher ends, then exits. Kubernetes then deletes the
cleanup controller's finished Job at once, and the StatefulSet with it. So the workers are deleted even if the launcher
was killed or its node was lost.

Manifests call the controller `keeper`, because names of objects in users' clusters and state must not change.
"""

from infra.jobs import hostfile, key_exchange
from infra.jobs.in_pods import python
from infra.jobs.mpijob import launcher_container, pod_metadata, prepared, worker_container
from infra.jobs.pod_templates import overridden
from infra.jobs.pods import SSH_PORT, Manifest, PlacedJob, container, helper_resources, launcher_pod, on_pool
from infra.naming import job_labels

KEEPER = "keeper"
FAILURES_ARGUMENT, WATCH_JOB = 5, "job"
"""Index of the argument in the cleanup controller's command that limits failed attempts, and the value of this argument
that makes the controller watch the launcher's Job instead."""

DEADLINE_SLACK_SECONDS = 60
"""The cleanup controller's deadline is this much later than the launcher's deadline."""


def launcher_name(job: str) -> str:
    return f"{job}-launcher"


def cleanup_controller_name(job: str) -> str:
    return f"{job}-{KEEPER}"


def workers(placed: PlacedJob) -> Manifest:
    """Return the workers' StatefulSet. The StatefulSet creates all workers at once and replaces lost workers while the
    job runs."""
    job = placed.job
    pod = on_pool(placed, [worker_container(key_exchange.without_sidecar_share(placed))])
    key_exchange.add_to(pod, placed)
    metadata = placed.queued_metadata(f"{job.name}-worker", "workers")  # Kueue admits the workers as a group
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": metadata,
        "spec": {
            "serviceName": job.name,
            "replicas": job.workers,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": job_labels(job.name, role="worker")},
            "template": overridden(placed, "worker", {"metadata": pod_metadata(placed, "worker"), "spec": pod}),
        },
    }


def service(placed: PlacedJob) -> Manifest:
    """Return the Service that gives workers DNS names. A worker's DNS name exists once the worker is ready, and the
    launcher waits for all names."""
    name = placed.job.name
    selector = job_labels(name, role="worker")
    spec = {"clusterIP": "None", "selector": selector, "ports": [{"name": "ssh", "port": SSH_PORT}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": placed.metadata(name, "service"), "spec": spec}


def config(placed: PlacedJob) -> Manifest:
    job = placed.job
    hosts = [hostfile.host(job.name, placed.namespace.name, number) for number in range(job.workers)]
    content = hostfile.hostfile(hosts, placed.size.slots)
    metadata = placed.metadata(f"{job.name}-config", "config")
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"hostfile": content}}


def launcher(placed: PlacedJob) -> Manifest:
    """Return the launcher's Job. This Job is the main object: the MPI job ends when it ends, and it owns the other
    objects."""
    job = placed.job
    hosts = {"name": "hosts", "configMap": {"name": f"{job.name}-config"}}
    main = launcher_container(placed)
    main["volumeMounts"].append({"name": "hosts", "mountPath": hostfile.DIRECTORY, "readOnly": True})
    # Hide the GPUs, which belong to the workers: some container runtimes expose all GPUs by default.
    main["env"] += [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]
    pod = launcher_pod(placed, [main], [hosts], restartPolicy="Never", **prepared(placed))
    key_exchange.add_to(pod, placed)
    metadata = placed.queued_metadata(launcher_name(job.name), "job")
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {
            "backoffLimit": job.max_restarts,
            "podReplacementPolicy": "Failed",
            **placed.time_limits,
            "template": overridden(placed, "launcher", {"metadata": pod_metadata(placed, "launcher"), "spec": pod}),
        },
    }


# --- cleanup controller ------------------------------------------------------------------------------------------------


def cleanup_controller(placed: PlacedJob) -> Manifest:
    """Return the cleanup controller's Job, which owns the workers."""
    job = placed.job
    arguments = [placed.namespace.name, launcher_name(job.name), str(job.max_restarts)]
    if job.key_exchange == "volume":
        arguments += [
            key_exchange.folder(placed),
            ",".join(f"{key}={value}" for key, value in job_labels(job.name, role="worker").items()),
        ]
    main = container(placed, KEEPER, python("keeper.py", *arguments), {}, resources=helper_resources(placed))
    pod = launcher_pod(placed, [main], restartPolicy="OnFailure")
    pod |= {"serviceAccountName": job.name, "automountServiceAccountToken": True}
    pod["terminationGracePeriodSeconds"] = 30  # keeper.py relies on this grace period
    metadata = placed.queued_metadata(cleanup_controller_name(job.name), KEEPER)
    deadline = (
        {}
        if job.active_deadline_seconds is None
        else {"activeDeadlineSeconds": job.active_deadline_seconds + DEADLINE_SLACK_SECONDS}
    )
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {
            "ttlSecondsAfterFinished": 0,
            "backoffLimit": 1000,
            **deadline,
            "template": {"metadata": pod_metadata(placed, KEEPER), "spec": pod},
        },
    }


def access(placed: PlacedJob) -> list[Manifest]:
    """Return the cleanup controller's service account and its only permission: to read pods of the namespace."""
    name = placed.job.name
    metadata = placed.metadata(name, KEEPER)
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata, "automountServiceAccountToken": False},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": metadata,
            "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": placed.namespace.name}],
        },
    ]
