"""Code shared by all formats: turns a pod template with a container into a job's image, environment, resources and
volumes.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from cli.jobs.importing.draft import Draft
from cli.jobs.importing.source import COUNT, Source
from infra.jobs import mpi_environment
from infra.jobs.pod_overrides import VOLUME_KINDS, PodVolume
from infra.jobs.pod_rules import OUR_VOLUMES, RESERVED_LABELS
from infra.jobs.pods import SSH_PORT
from infra.jobs.quantities import bytes_of
from infra.jobs.rank_environment import MASTER_PORT
from infra.naming import EFA_RESOURCE, GPU_RESOURCE

QUEUE: Final = "kueue.x-k8s.io/queue-name"
PRIORITY: Final = "kueue.x-k8s.io/priority-class"
USER: Final = 1000
SECRET: Final = re.compile(r"secret:(?P<name>[^/]+)/(?P<key>.+)")
"""Pattern of `--set` values that refer to a key of a Secret."""

_SECRET: Final = ("name", "key")

LAUNCHER_PORTS: Final = (SSH_PORT, MASTER_PORT)
KINDS: Final = tuple(str(PodVolume.model_fields[kind].alias) for kind in VOLUME_KINDS)
"""Kinds of volumes that `podOverrides` supports."""
WITHOUT_ENTRYPOINT: Final = "command, because the image's ENTRYPOINT is not in this file. Put the ENTRYPOINT before the arguments"
RANKS_RESTART: Final = "the launcher restarts the job up to maxRestarts times"
_POD: Final[Mapping[str, str]] = {
    "nodeSelector": "the pool chooses the nodes",
    "serviceAccountName": "pods run as the service account of the namespace's jobs",
    "serviceAccount": "pods run as the service account of the namespace's jobs",
    "priorityClassName": "set priority to a priority class of the queue",
    "schedulerName": "the queue and the default scheduler place the pods",
    "hostNetwork": "Pod Security forbids it, and no transport needs it",
    "hostIPC": "Pod Security forbids it; every worker has its own /dev/shm",
    "hostPID": "Pod Security forbids it",
    "initContainers": "use setup for a command that runs once before the ranks",
    "subdomain": "the launcher names the pods",
    "hostname": "the launcher names the pods",
}
_CONTAINER: Final[Mapping[str, str]] = {
    "imagePullPolicy": "nodes always pull tags, but pull digests only once",
    "stdin": "ranks have no terminal attached",
    "tty": "ranks have no terminal attached",
    "readinessProbe": "the launcher checks its workers itself",
    "livenessProbe": "the launcher checks its workers itself",
    "startupProbe": "the launcher checks its workers itself",
    "lifecycle": "use checkpointSignal and terminationGracePeriodSeconds",
}


def metadata(draft: Draft, source: Source) -> None:
    """Read the job's name and Kueue's labels."""
    source.take("apiVersion")
    source.take("kind")
    about = source.at("metadata")
    draft.set("name", about.take("name"))
    if start := about.take("generateName"):
        draft.set("generateName", start)
    about.drop("namespace", why="submit puts the job into a job namespace; choose one with --namespace")
    about.drop("labels", QUEUE, why="jobs wait in the queue of their namespace")
    if priority := about.at("labels", PRIORITY).value:
        draft.set("priority", priority, f"from the label {PRIORITY}")
        about.take("labels", PRIORITY)


def template_metadata(draft: Draft, template: Source, role: str = "worker") -> None:
    """Read labels and annotations of a pod template."""
    for key in ("labels", "annotations"):
        found = template.at("metadata", key)
        kept = {name: str(value) for name, value in (found.value or {}).items() if not name.startswith(RESERVED_LABELS)}
        for name in kept:
            found.take(name)
        found.drop(why="the launcher and the queue set the others")
        draft.override(role, key, kept)


def workers(draft: Draft, spec: Source, container: Source) -> None:
    """For formats with one kind of worker, read the pod template except for its command."""
    pod_settings(draft, spec)
    ports(draft, container)
    draft.set("workingDir", container.take("workingDir"))
    draft.set("image", container.take("image"))
    environment(draft, container)
    volumes(draft, spec, container)
    resources(draft, container.at("resources"))


def pod_settings(draft: Draft, spec: Source, role: str = "worker") -> None:
    """Read a role's tolerations, affinity, grace period and image pull secrets."""
    draft.override(role, "tolerations", spec.take("tolerations"))
    if affinity := spec.take("affinity"):
        draft.override(role, "affinity", affinity)
        draft.comments["podOverrides"] = "affinity as in the source: the nodes of the pool must have these labels"
    _grace_period(draft, spec)
    if names := [one.take("name") for one in spec.each("imagePullSecrets")]:
        draft.set("imagePullSecrets", names, "Secrets that must exist in the job's namespace")


def _grace_period(draft: Draft, spec: Source) -> None:
    """Read the grace period. All pods of a job have the same grace period: the longest in the source."""
    key = "terminationGracePeriodSeconds"
    given = [one for one in (spec, draft.grace_period) if one is not None and one.at(key).value is not None]
    if not given:
        return
    draft.grace_period = max(given, key=lambda one: int(one.at(key).value))
    longest = draft.grace_period.at(key).value
    for one in given:
        one.untake(key)
        if one.at(key).value == longest:
            one.take(key)
        one.change(key, to=f"{longest}, the longest in the source: all pods of a job have the same grace period")
    draft.set(key, longest)


def pod(spec: Source, name: str | None = None) -> Source:
    """Record the pod fields that job files do not support. Return the main container: the one with this name, or else
    the first.
    """
    for key, why in _POD.items():
        spec.drop(key, why=why)
    spec.change("restartPolicy", to=RANKS_RESTART)
    containers = spec.each("containers")
    chosen = next((one for one in containers if name and one.at("name").value == name), containers[0] if containers else None)
    for number, one in enumerate(containers):
        if chosen is None or one.path != chosen.path:
            spec.drop("containers", number, why="a job has one container; merge it into the image or run it as a separate job")
    _security(spec)
    if chosen is None:
        return spec.at("containers", 0)
    chosen.take("name")
    for key, why in _CONTAINER.items():
        chosen.drop(key, why=why)
    _security(chosen)
    return chosen


def _security(one: Source) -> None:
    """Record security settings that job files do not support. A job's pods run as user 1000 under Pod Security
    `restricted`.
    """
    for key in ("runAsUser", "runAsGroup", "fsGroup"):
        if one.at("securityContext", key).value == USER:
            one.take("securityContext", key)
        else:
            one.drop("securityContext", key, why=f"pods run as user and group {USER}")
    for key, wanted in (("runAsNonRoot", True), ("allowPrivilegeEscalation", False), ("privileged", False)):
        if one.at("securityContext", key).value == wanted:
            one.take("securityContext", key)
    one.drop("securityContext", "privileged", why="Pod Security forbids it; device plugins give pods their devices")
    one.drop("securityContext", "capabilities", why="pods have no capabilities; Open MPI and NCCL need none")
    one.drop("securityContext", why="pods comply with the restricted Pod Security Standard")


def command(container: Source) -> list[str]:
    """Return the container's `command` and `args` as one list."""
    entry = container.take("command") or []
    if not entry and container.at("args").value:
        container.change("args", to=WITHOUT_ENTRYPOINT)
    return [str(word) for word in [*entry, *(container.take("args") or [])]]


def ports(draft: Draft, container: Source, role: str = "worker") -> None:
    """Read the ports, except those that the launcher itself uses."""
    found = []
    for one in container.each("ports"):
        if one.at("containerPort").value in LAUNCHER_PORTS:
            one.drop(why="the launcher uses this port")
        else:
            found.append({key: one.take(key) for key in ("name", "containerPort", "protocol") if one.at(key).value is not None})
    draft.override(role, "ports", found)


def environment(draft: Draft, container: Source) -> None:
    """Read the environment variables, except those that the launcher or the device plugin sets."""
    if sources := container.take("envFrom"):
        known = draft.values.get("envFrom", [])
        draft.set("envFrom", [*known, *(one for one in sources if one not in known)], "must exist in the job's namespace")
    for one in container.each("env"):
        name = str(one.take("name"))
        if mpi_environment.is_reserved(name):
            for key in ("value", "valueFrom"):
                one.drop(key, why=f"the launcher or the device plugin sets {name}")
        elif one.at("valueFrom").value is not None and not one.at("valueFrom", "secretKeyRef").value:
            one.drop("valueFrom", why=f"{name} needs a value or a Secret; job files support no other sources")
        else:
            _variable(draft, name, one)


def _variable(draft: Draft, name: str, one: Source) -> None:
    """Read an environment variable that has a literal value or refers to a Secret. As in Kubernetes, the last of
    several variables with the same name wins.
    """
    value: str | dict[str, str]
    if secret := one.at("valueFrom", "secretKeyRef").value:
        field, value = "secretEnv", {key: str(one.take("valueFrom", "secretKeyRef", key)) for key in _SECRET if key in secret}
    elif match := SECRET.fullmatch(str(one.take("value"))):
        field, value = "secretEnv", match.groupdict()
    else:
        field, value = "env", str(one.value.get("value") or "")
    former = next((draft.values[key].pop(name) for key in ("env", "secretEnv") if name in draft.values.get(key, {})), value)
    sources = draft.env_sources.setdefault(name, [])
    if former != value:
        text = repr(value) if isinstance(value, str) else f"Secret {'/'.join(value.values())}"
        while sources:
            _replaced(sources.pop(), text)
    sources.append(one)
    draft.add(field, {name: value})
    for key in ("env", "secretEnv"):
        if not draft.values.get(key, True):
            del draft.values[key]


def _replaced(former: Source, value: str) -> None:
    for path in (("value",), *(("valueFrom", "secretKeyRef", key) for key in _SECRET)):
        former.untake(*path)
    for key in ("value", "valueFrom"):
        former.change(key, to=f"{value}, set elsewhere in the source: all pods of a job have the same environment")


def resources(draft: Draft, source: Source) -> None:
    """Read the resources of one worker: each limit or, if there is none, the request."""
    limits, requests = source.at("limits"), source.at("requests")
    amounts = {**(requests.value or {}), **(limits.value or {})}
    found: dict[str, Any] = {}
    for name, amount in amounts.items():
        for where in (limits, requests):
            if where.at(name).value not in (None, amount):
                where.change(name, to=f"{amount}, the limit: pods of a job request their limit")
        if not _amount(draft, found, name, amount):
            continue
        limits.take(name)
        requests.take(name)
    draft.add("resources", found)


def _amount(draft: Draft, found: dict[str, Any], name: str, amount: Any) -> bool:
    """Store the amount of one resource; return whether job files have a field for this resource."""
    if name == GPU_RESOURCE:
        draft.set("gpusPerWorker", _whole(amount))
    elif name == EFA_RESOURCE:
        found["efa"] = _whole(amount)
    elif name in ("cpu", "memory"):
        found[name] = str(amount)
    elif name == "hugepages-2Mi":
        found["hugepagesMib"] = _mib(amount)
    elif name.startswith("rdma/"):
        found["rdma"] = _whole(amount)
    else:
        return False
    return True


def _whole(amount: Any) -> Any:
    return int(amount) if COUNT.fullmatch(str(amount)) else amount


def _mib(amount: Any) -> Any:
    try:
        return bytes_of(str(amount)) // 2**20
    except ValueError:
        return amount


def volumes(draft: Draft, spec: Source, container: Source, role: str = "worker") -> None:
    """Read PersistentVolumeClaims, shared memory, and other volumes that Pod Security allows."""
    by_name = {str(one.at("name").value): one for one in spec.each("volumes")}
    claims = []
    for mount in container.each("volumeMounts"):
        name, path = str(mount.take("name")), str(mount.at("mountPath").value)
        volume = by_name.get(name)
        if volume is None:
            mount.drop("mountPath", why=f"the pod has no volume {name}")
        elif path.rstrip("/") == "/dev/shm":
            _shared_memory(draft, mount, volume)
        elif claim := volume.at("persistentVolumeClaim", "claimName").value:
            volume.take("name")
            volume.take("persistentVolumeClaim")
            read_only = mount.take("readOnly") or volume.at("persistentVolumeClaim", "readOnly").value
            entry = {"name": claim, "mountPath": mount.take("mountPath")}
            claims.append({**entry, "readOnly": True} if read_only else entry)
            mount.drop("subPath", why="the whole volume is mounted; use the folder in the command")
        else:
            _other_volume(draft, role, mount, volume)
    if claims:
        draft.set("volumes", claims, "claims must exist in the job's namespace")


def _shared_memory(draft: Draft, mount: Source, volume: Source) -> None:
    mount.take("mountPath")
    volume.take("name")
    volume.take("emptyDir", "medium")
    if size := volume.take("emptyDir", "sizeLimit"):
        draft.add("resources", {"sharedMemoryMib": _mib(size)})
    volume.change("hostPath", to="every worker has its own /dev/shm; its size is resources.sharedMemoryMib")


def _other_volume(draft: Draft, role: str, mount: Source, volume: Source) -> None:
    name, path = str(volume.take("name")), str(mount.at("mountPath").value)
    kind = next((key for key in volume.value if key != "name"), "")
    known = draft.values.get("podOverrides", {}).get(role, {}).get("volumes", [])
    if kind == "emptyDir" and (path == "/tmp" or path.startswith("/tmp/")):
        mount.take("mountPath")
        volume.change("emptyDir", to="every pod has its own /tmp")
    elif kind not in KINDS:
        mount.take("mountPath")
        whys = {
            "hostPath": f"Pod Security forbids it. Mount a claim at {path}, or set writableRoot and create {path} in the "
            "container"
        }
        volume.drop(kind, why=whys.get(kind, f"put the files of {path} into the image or on a claim"))
    elif any(one["name"] == name for one in known):
        mount.drop(why="a pod's volume has one mount path; mount its parent folder, or use the path in the command")
    else:
        keys = [key for key in ("mountPath", "subPath", "readOnly") if mount.at(key).value]
        own = f"{name}-volume" if name in OUR_VOLUMES else name
        draft.override(role, "volumes", [{"name": own, **{key: mount.take(key) for key in keys}, kind: volume.take(kind)}])
