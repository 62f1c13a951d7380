"""How the pods of a job of launcher `openmpi` get SSH keys. With mpi-operator it is always its own Secret.

- `secret`: one pair for all pods, made here
- `volume`: one pair for all pods, which the first of them puts onto a volume that all see
- `s3`: each pod has a pair of its own; the public halves go through the cluster's key bucket
"""

from dataclasses import replace
from typing import Final

from infra.jobs.in_pods import python, shell
from infra.jobs.keys import KeyPair
from infra.jobs.pods import HELPER_CPU_MILLIS, STARTED_SECONDS, Manifest, World, container, helper_resources, writable_path
from infra.jobs.quantities import mib
from infra.naming import KEY_BUCKET_CONFIG, KEY_BUCKET_KEY

KEY_FILES: Final = (("ssh-privatekey", "id_rsa"), ("ssh-publickey", "id_rsa.pub"), ("ssh-publickey", "authorized_keys"))
"""Key in the Secret and file below ~/.ssh, as with mpi-operator: an image serves both launchers."""

KEYS: Final = "/keys"
"""Where init containers leave the keys of their pod."""

FOLLOWER_MEMORY_MIB: Final = 128
"""For the container beside a worker's ranks with `s3`; the worker's share of its node has room for it."""


def add_to(pod: Manifest, world: World) -> None:
    """Give a pod its keys below ~/.ssh: a volume, and what fills it."""
    job = world.job
    if job.key_exchange == "secret":
        items = [{"key": key, "path": file} for key, file in KEY_FILES]
        source: Manifest = {"secret": {"secretName": f"{job.name}-ssh", "items": items}}
    else:
        source = {"emptyDir": {"medium": "Memory", "sizeLimit": mib(1)}}
        pod["initContainers"] = [*_key_makers(world), *pod.get("initContainers", [])]
    pod["volumes"].append({"name": "ssh-auth", **source})
    pod["containers"][0]["volumeMounts"].append({"name": "ssh-auth", "mountPath": f"{job.home}/.ssh", "readOnly": True})


def _key_makers(world: World) -> list[Manifest]:
    if world.job.key_exchange == "volume":
        made = [container(world, "keys", shell("keys_on_volume.sh", folder(world), KEYS), {}, resources=helper_resources(world))]
    else:
        made = [_in_bucket(world, "publish", "keys"), _in_bucket(world, "follow", "keys-of-others", **_beside_the_others())]
    for one in made:
        one["volumeMounts"].append({"name": "ssh-auth", "mountPath": KEYS})
    return made


def _in_bucket(world: World, verb: str, name: str, **more: object) -> Manifest:
    job = world.job
    command = python("keys_in_bucket.py", verb, world.namespace.name, job.name, str(job.workers), KEYS)
    made = container(world, name, command, {}, resources=helper_resources(world, FOLLOWER_MEMORY_MIB), **more)
    bucket = {"configMapKeyRef": {"name": KEY_BUCKET_CONFIG, "key": KEY_BUCKET_KEY}}
    pod = {"fieldRef": {"fieldPath": "metadata.name"}}
    made["env"] += [{"name": "GPUMPI_KEY_BUCKET", "valueFrom": bucket}, {"name": "GPUMPI_POD", "valueFrom": pod}]
    return made


def _beside_the_others() -> Manifest:
    """A container that runs as long as its pod; those behind it start when the keys of all workers are there.

    https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/
    """
    all_are_known = {"exec": {"command": ["test", "-e", f"{KEYS}/known_hosts"]}, "periodSeconds": 1}
    return {"restartPolicy": "Always", "startupProbe": {**all_are_known, "failureThreshold": STARTED_SECONDS}}


def with_room(world: World) -> World:
    """Workers a little smaller, where something runs beside them."""
    if world.job.key_exchange != "s3":
        return world
    memory, cpu = world.size.memory_mib - FOLLOWER_MEMORY_MIB, max(1, world.size.cpu_millis - HELPER_CPU_MILLIS)
    return replace(world, size=replace(world.size, memory_mib=memory, cpu_millis=cpu))


def secret(world: World, keys: KeyPair) -> Manifest:
    """The job's own, which goes with it."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": world.metadata(f"{world.job.name}-ssh", "keys"),
        "type": "kubernetes.io/ssh-auth",
        "stringData": {"ssh-privatekey": keys.private, "ssh-publickey": keys.public},
    }


def folder(world: World) -> str:
    """Where the job's key pair lies on its volume, as long as it runs."""
    return f"{writable_path(world.job, world.namespace)}/.gpumpi/ssh/{world.namespace.name}.{world.job.name}"
