"""`launcher: openmpi`: the same job without an operator.

Workers are a StatefulSet, the launcher is a Job, and a keeper removes the workers at the end. The keeper may read pods, no
more: it waits for the launcher's end and ends itself; since the StatefulSet belongs to the keeper's Job, which Kubernetes
deletes as soon as it is finished, the workers go with it. So they go too where a launcher was killed or its node lost.
"""

from infra.jobs import hostfile, key_exchange
from infra.jobs.in_pods import python
from infra.jobs.mpijob import launcher_container, pod_metadata, prepared, worker_container
from infra.jobs.pods import SSH_PORT, Manifest, World, container, helper_resources, launcher_pod, on_pool
from infra.naming import job_labels

DEADLINE_SLACK_SECONDS = 60
"""After the launcher's own deadline."""


def launcher_name(job: str) -> str:
    return f"{job}-launcher"


def keeper_name(job: str) -> str:
    return f"{job}-keeper"


def workers(world: World) -> Manifest:
    """All at once; each comes back when it is lost, as long as the job runs."""
    job = world.job
    pod = on_pool(world, [worker_container(key_exchange.with_room(world))])
    key_exchange.add_to(pod, world)
    metadata = world.metadata(f"{job.name}-worker", "workers")
    metadata["labels"] |= world.queue_label  # as a group: all of them or none
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": metadata,
        "spec": {
            "serviceName": job.name,
            "replicas": job.workers,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": job_labels(job.name, role="worker")},
            "template": {"metadata": pod_metadata(world, "worker"), "spec": pod},
        },
    }


def service(world: World) -> Manifest:
    """Names for the workers. A name appears when its worker is ready, which is what the launcher waits for."""
    name = world.job.name
    selector = job_labels(name, role="worker")
    spec = {"clusterIP": "None", "selector": selector, "ports": [{"name": "ssh", "port": SSH_PORT}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": world.metadata(name, "service"), "spec": spec}


def config(world: World) -> Manifest:
    job = world.job
    hosts = [hostfile.host(job.name, world.namespace.name, number) for number in range(job.workers)]
    content = hostfile.hostfile(hosts, world.size.slots)
    metadata = world.metadata(f"{job.name}-config", "config")
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"hostfile": content}}


def launcher(world: World) -> Manifest:
    """The Job that is the job: its end is the job's, and everything else belongs to it."""
    job = world.job
    hosts = {"name": "hosts", "configMap": {"name": f"{job.name}-config"}}
    main = launcher_container(world)
    main["volumeMounts"].append({"name": "hosts", "mountPath": hostfile.DIRECTORY, "readOnly": True})
    # The GPUs are the workers', also where the container runtime would hand out all that there are
    main["env"] += [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]
    pod = launcher_pod(world, [main], [hosts], restartPolicy="Never", **prepared(world))
    key_exchange.add_to(pod, world)
    metadata = world.metadata(launcher_name(job.name), "job")
    metadata["labels"] |= world.queue_label
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {
            "backoffLimit": job.backoff_limit,
            "podReplacementPolicy": "Failed",
            **({"activeDeadlineSeconds": job.deadline_seconds} if job.deadline_seconds is not None else {}),
            **({"ttlSecondsAfterFinished": job.ttl_seconds} if job.ttl_seconds is not None else {}),
            "template": {"metadata": pod_metadata(world, "launcher"), "spec": pod},
        },
    }


# --- the keeper --------------------------------------------------------------------------------------------------------


def keeper(world: World) -> Manifest:
    """The Job that the workers belong to."""
    job = world.job
    arguments = [world.namespace.name, launcher_name(job.name), str(job.backoff_limit)]
    if job.key_exchange == "volume":
        arguments += [
            key_exchange.folder(world),
            ",".join(f"{key}={value}" for key, value in job_labels(job.name, role="worker").items()),
        ]
    main = container(world, "keeper", python("keeper.py", *arguments), {}, resources=helper_resources(world))
    pod = launcher_pod(world, [main], restartPolicy="OnFailure")
    pod |= {"serviceAccountName": job.name, "automountServiceAccountToken": True}
    metadata = world.metadata(keeper_name(job.name), "keeper")
    metadata["labels"] |= world.queue_label
    deadline = {} if job.deadline_seconds is None else {"activeDeadlineSeconds": job.deadline_seconds + DEADLINE_SLACK_SECONDS}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {
            "ttlSecondsAfterFinished": 0,
            "backoffLimit": 1000,
            **deadline,
            "template": {"metadata": pod_metadata(world, "keeper"), "spec": pod},
        },
    }


def access(world: World) -> list[Manifest]:
    """The keeper may read pods of its namespace, and nothing else."""
    name = world.job.name
    metadata = world.metadata(name, "keeper")
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
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": world.namespace.name}],
        },
    ]
