"""Code shared by all formats: turns a pod template with a container into a job's image, environment, resources and
volumes.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from cli.jobs.importing.draft import Draft
from cli.jobs.importing.source import COUNT, Source
from infra.jobs import rank_environment
from infra.jobs.mpi import SSH_PORT
from infra.jobs.pod_overrides import VOLUME_KINDS, PodVolume
from infra.jobs.pod_rules import OUR_VOLUMES, RESERVED_LABELS
from infra.jobs.rank_environment import MASTER_PORT
from infra.jobs.sizing import parse_bytes
from infra.naming import EFA_RESOURCE, GPU_RESOURCE, PRIORITY_LABEL, QUEUE_LABEL

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


def read_metadata(draft: Draft, source: Source) -> None:
    """Read the job's name and Kueue's labels."""
    source.take("apiVersion")
    source.take("kind")
    about = source.get_field("metadata")
    draft.set("name", about.take("name"))
    if start := about.take("generateName"):
        draft.set("generateName", start)
    about.note_dropped_field("namespace", why="submit puts the job into a job namespace; choose one with --namespace")
    about.note_dropped_field("labels", QUEUE_LABEL, why="jobs wait in the queue of their namespace")
    if priority := about.get_field("labels", PRIORITY_LABEL).value:
        draft.set("priority", priority, f"from the label {PRIORITY_LABEL}")
        about.take("labels", PRIORITY_LABEL)


def read_template_metadata(draft: Draft, template: Source, role: str = "worker") -> None:
    """Read labels and annotations of a pod template."""
    for key in ("labels", "annotations"):
        section = template.get_field("metadata", key)
        portable = {name: str(value) for name, value in (section.value or {}).items() if not name.startswith(RESERVED_LABELS)}
        for name in portable:
            section.take(name)
        section.note_dropped_field(why="the launcher and the queue set the others")
        draft.override(role, key, portable)


def read_worker_template(draft: Draft, spec: Source, container: Source) -> None:
    """For formats with one kind of worker, read the pod template except for its command."""
    read_pod_settings(draft, spec)
    read_ports(draft, container)
    draft.set("workingDir", container.take("workingDir"))
    draft.set("image", container.take("image"))
    read_environment(draft, container)
    read_volumes(draft, spec, container)
    read_resources(draft, container.get_field("resources"))


def read_pod_settings(draft: Draft, spec: Source, role: str = "worker") -> None:
    """Read a role's tolerations, affinity, grace period and image pull secrets."""
    draft.override(role, "tolerations", spec.take("tolerations"))
    if affinity := spec.take("affinity"):
        draft.override(role, "affinity", affinity)
        draft.comments["podOverrides"] = "affinity as in the source: the nodes of the pool must have these labels"
    _read_grace_period(draft, spec)
    if names := [secret.take("name") for secret in spec.list_elements("imagePullSecrets")]:
        draft.set("imagePullSecrets", names, "Secrets that must exist in the job's namespace")


def _read_grace_period(draft: Draft, spec: Source) -> None:
    """Read the grace period. All pods of a job have the same grace period: the longest in the source."""
    key = "terminationGracePeriodSeconds"
    sources = [source for source in (spec, draft.grace_period) if source is not None and source.get_field(key).value is not None]
    if not sources:
        return
    draft.grace_period = max(sources, key=lambda source: int(source.get_field(key).value))
    longest = draft.grace_period.get_field(key).value
    for source in sources:
        source.undo_take(key)
        if source.get_field(key).value == longest:
            source.take(key)
        source.note_changed_field(key, to=f"{longest}, the longest in the source: all pods of a job have the same grace period")
    draft.set(key, longest)


def read_pod(spec: Source, name: str | None = None) -> Source:
    """Record the pod fields that job files do not support. Return the main container: the one with this name, or else
    the first.
    """
    for key, why in _POD.items():
        spec.note_dropped_field(key, why=why)
    spec.note_changed_field("restartPolicy", to=RANKS_RESTART)
    containers = spec.list_elements("containers")
    chosen = next(
        (container for container in containers if name and container.get_field("name").value == name),
        containers[0] if containers else None,
    )
    for number, container in enumerate(containers):
        if chosen is None or container.path != chosen.path:
            spec.note_dropped_field(
                "containers", number, why="a job has one container; merge it into the image or run it as a separate job"
            )
    _read_security_context(spec)
    if chosen is None:
        return spec.get_field("containers", 0)
    chosen.take("name")
    for key, why in _CONTAINER.items():
        chosen.note_dropped_field(key, why=why)
    _read_security_context(chosen)
    return chosen


def _read_security_context(context: Source) -> None:
    """Record security settings that job files do not support. A job's pods run as user 1000 under Pod Security
    `restricted`.
    """
    for key in ("runAsUser", "runAsGroup", "fsGroup"):
        if context.get_field("securityContext", key).value == USER:
            context.take("securityContext", key)
        else:
            context.note_dropped_field("securityContext", key, why=f"pods run as user and group {USER}")
    for key, required in (("runAsNonRoot", True), ("allowPrivilegeEscalation", False), ("privileged", False)):
        if context.get_field("securityContext", key).value == required:
            context.take("securityContext", key)
    context.note_dropped_field(
        "securityContext", "privileged", why="Pod Security forbids it; device plugins give pods their devices"
    )
    context.note_dropped_field("securityContext", "capabilities", why="pods have no capabilities; Open MPI and NCCL need none")
    context.note_dropped_field("securityContext", why="pods comply with the restricted Pod Security Standard")


def read_command(container: Source) -> list[str]:
    """Return the container's `command` and `args` as one list."""
    entry = container.take("command") or []
    if not entry and container.get_field("args").value:
        container.note_changed_field("args", to=WITHOUT_ENTRYPOINT)
    return [str(word) for word in [*entry, *(container.take("args") or [])]]


def read_ports(draft: Draft, container: Source, role: str = "worker") -> None:
    """Read the ports, except those that the launcher itself uses."""
    ports = []
    for port in container.list_elements("ports"):
        if port.get_field("containerPort").value in LAUNCHER_PORTS:
            port.note_dropped_field(why="the launcher uses this port")
        else:
            ports.append(
                {key: port.take(key) for key in ("name", "containerPort", "protocol") if port.get_field(key).value is not None}
            )
    draft.override(role, "ports", ports)


def read_environment(draft: Draft, container: Source) -> None:
    """Read the environment variables, except those that the launcher or the device plugin sets."""
    if sources := container.take("envFrom"):
        imported = draft.values.get("envFrom", [])
        added = [source for source in sources if source not in imported]
        draft.set("envFrom", [*imported, *added], "must exist in the job's namespace")
    for variable in container.list_elements("env"):
        name = str(variable.take("name"))
        if rank_environment.is_reserved_variable(name):
            for key in ("value", "valueFrom"):
                variable.note_dropped_field(key, why=f"the launcher or the device plugin sets {name}")
        elif variable.get_field("valueFrom").value is not None and not variable.get_field("valueFrom", "secretKeyRef").value:
            variable.note_dropped_field("valueFrom", why=f"{name} needs a value or a Secret; job files support no other sources")
        else:
            import_variable(draft, name, variable)


def import_variable(draft: Draft, name: str, variable: Source) -> None:
    """Read an environment variable that has a literal value or refers to a Secret. As in Kubernetes, the last of
    several variables with the same name wins.
    """
    value: str | dict[str, str]
    if secret := variable.get_field("valueFrom", "secretKeyRef").value:
        field, value = (
            "secretEnv",
            {key: str(variable.take("valueFrom", "secretKeyRef", key)) for key in _SECRET if key in secret},
        )
    elif match := SECRET.fullmatch(str(variable.take("value"))):
        field, value = "secretEnv", match.groupdict()
    else:
        field, value = "env", str(variable.value.get("value") or "")
    former = next((draft.values[key].pop(name) for key in ("env", "secretEnv") if name in draft.values.get(key, {})), value)
    sources = draft.env_sources.setdefault(name, [])
    if former != value:
        text = repr(value) if isinstance(value, str) else f"Secret {'/'.join(value.values())}"
        while sources:
            note_replaced_value(sources.pop(), text)
    sources.append(variable)
    draft.add(field, {name: value})
    for key in ("env", "secretEnv"):
        if not draft.values.get(key, True):
            del draft.values[key]


def note_replaced_value(former: Source, value: str) -> None:
    for path in (("value",), *(("valueFrom", "secretKeyRef", key) for key in _SECRET)):
        former.undo_take(*path)
    for key in ("value", "valueFrom"):
        former.note_changed_field(key, to=f"{value}, set elsewhere in the source: all pods of a job have the same environment")


def read_resources(draft: Draft, source: Source) -> None:
    """Read the resources of one worker: each resource's limit or, if there is none, its request."""
    limits, requests = source.get_field("limits"), source.get_field("requests")
    amounts = {**(requests.value or {}), **(limits.value or {})}
    resources: dict[str, Any] = {}
    for name, amount in amounts.items():
        for where in (limits, requests):
            if where.get_field(name).value not in (None, amount):
                where.note_changed_field(name, to=f"{amount}, the limit: pods of a job request their limit")
        if not _store_resource(draft, resources, name, amount):
            continue
        limits.take(name)
        requests.take(name)
    draft.add("resources", resources)


def _store_resource(draft: Draft, resources: dict[str, Any], name: str, amount: Any) -> bool:
    """Store the amount of one resource; return whether job files have a field for this resource."""
    if name == GPU_RESOURCE:
        draft.set("gpusPerWorker", parse_whole_number(amount))
    elif name == EFA_RESOURCE:
        resources["efa"] = parse_whole_number(amount)
    elif name in ("cpu", "memory"):
        resources[name] = str(amount)
    elif name == "hugepages-2Mi":
        resources["hugepagesMib"] = parse_mib(amount)
    elif name.startswith("rdma/"):
        resources["rdma"] = parse_whole_number(amount)
    else:
        return False
    return True


def parse_whole_number(amount: Any) -> Any:
    return int(amount) if COUNT.fullmatch(str(amount)) else amount


def parse_mib(amount: Any) -> Any:
    try:
        return parse_bytes(str(amount)) // 2**20
    except ValueError:
        return amount


def read_volumes(draft: Draft, spec: Source, container: Source, role: str = "worker") -> None:
    """Read PersistentVolumeClaims, shared memory, and other volumes that Pod Security allows."""
    by_name = {str(volume.get_field("name").value): volume for volume in spec.list_elements("volumes")}
    claims = []
    for mount in container.list_elements("volumeMounts"):
        name, path = str(mount.take("name")), str(mount.get_field("mountPath").value)
        volume = by_name.get(name)
        if volume is None:
            mount.note_dropped_field("mountPath", why=f"the pod has no volume {name}")
        elif path.rstrip("/") == "/dev/shm":
            _read_shared_memory(draft, mount, volume)
        elif claim := volume.get_field("persistentVolumeClaim", "claimName").value:
            volume.take("name")
            volume.take("persistentVolumeClaim")
            read_only = mount.take("readOnly") or volume.get_field("persistentVolumeClaim", "readOnly").value
            entry = {"name": claim, "mountPath": mount.take("mountPath")}
            claims.append({**entry, "readOnly": True} if read_only else entry)
            mount.note_dropped_field("subPath", why="the whole volume is mounted; use the folder in the command")
        else:
            _read_other_volume(draft, role, mount, volume)
    if claims:
        draft.set("volumes", claims, "claims must exist in the job's namespace")


def _read_shared_memory(draft: Draft, mount: Source, volume: Source) -> None:
    mount.take("mountPath")
    volume.take("name")
    volume.take("emptyDir", "medium")
    if size := volume.take("emptyDir", "sizeLimit"):
        draft.add("resources", {"sharedMemoryMib": parse_mib(size)})
    volume.note_changed_field("hostPath", to="every worker has its own /dev/shm; its size is resources.sharedMemoryMib")


def _read_other_volume(draft: Draft, role: str, mount: Source, volume: Source) -> None:
    name, path = str(volume.take("name")), str(mount.get_field("mountPath").value)
    kind = next((key for key in volume.value if key != "name"), "")
    earlier = draft.values.get("podOverrides", {}).get(role, {}).get("volumes", [])
    if kind == "emptyDir" and (path == "/tmp" or path.startswith("/tmp/")):
        mount.take("mountPath")
        volume.note_changed_field("emptyDir", to="every pod has its own /tmp")
    elif kind not in KINDS:
        mount.take("mountPath")
        whys = {
            "hostPath": f"Pod Security forbids it. Mount a claim at {path}, or set writableRoot and create {path} in the "
            "container"
        }
        volume.note_dropped_field(kind, why=whys.get(kind, f"put the files of {path} into the image or on a claim"))
    elif any(volume["name"] == name for volume in earlier):
        mount.note_dropped_field(why="a pod's volume has one mount path; mount its parent folder, or use the path in the command")
    else:
        keys = [key for key in ("mountPath", "subPath", "readOnly") if mount.get_field(key).value]
        own = f"{name}-volume" if name in OUR_VOLUMES else name
        draft.override(role, "volumes", [{"name": own, **{key: mount.take(key) for key in keys}, kind: volume.take(kind)}])
