"""Find out why a cluster's queue would not admit the pods of a foreign manifest, or why the pods would fit on no node."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from cli.jobs.importing.admission import Path, find_pod_specs
from infra.config.messages import format_value, join_with_and
from infra.config.problems import Problem, format_path
from infra.jobs.cluster import ClusterDescription, NamespaceDescription, TaintDescription
from infra.jobs.sizing import format_mib, parse_bytes, parse_millicores
from infra.naming import EFA_RESOURCE, GPU_RESOURCE, QUEUE_LABEL

INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
OF_NODES: Final = ("kubernetes.io/", "k8s.io/", "k8s.aws/", "eks.amazonaws.com/")
"""Substrings of the keys of labels that Kubernetes, EKS and others set on nodes. Cluster descriptions do not contain
these labels.
"""


def problems(manifest: Mapping[str, Any], cluster: ClusterDescription, namespace: NamespaceDescription | None) -> list[Problem]:
    """Return the problems, with their paths. Performs no I/O."""
    problems = [Problem(format_path(path), text) for path, text in _check_queue(manifest, namespace)]
    for path, spec in find_pod_specs(manifest):
        reasons = list(check_resource_sizes(spec, cluster)) or [
            *_check_node_selector(spec, cluster),
            *_check_tolerations(spec, cluster),
        ]
        problems += [Problem(format_path((*path, *where)), text) for where, text in (*reasons, *_check_images(spec, cluster))]
    return problems


def _check_queue(manifest: Mapping[str, Any], namespace: NamespaceDescription | None) -> Iterator[tuple[Path, str]]:
    queue = ((manifest.get("metadata") or {}).get("labels") or {}).get(QUEUE_LABEL)
    if queue and namespace and namespace.queue and queue != namespace.queue:
        why = f"namespace {namespace.name} has no queue {format_value(queue)}, so the job would wait forever"
        yield ("metadata", "labels", QUEUE_LABEL), f"{why}. Use {namespace.queue}, or remove it."


# --- sizes -------------------------------------------------------------------------------------------------------------


def find_largest_pools(cluster: ClusterDescription) -> dict[str, tuple[str, int, Callable[[str], int], Callable[[int], str]]]:
    """Return a mapping from resources to (name in messages, largest amount on any node, parser of amounts, formatter
    of amounts)."""
    pools = cluster.pools
    return {
        GPU_RESOURCE: ("GPUs", max((pool.gpus for pool in pools), default=0), int, str),
        EFA_RESOURCE: ("EFA interfaces", max((pool.efa for pool in pools), default=0), int, str),
        "cpu": ("CPUs", max((pool.cpu_millis for pool in pools), default=0), parse_millicores, lambda most: f"{most}m"),
        "memory": (
            "of memory",
            max((pool.memory_mib for pool in pools), default=0) << 20,
            parse_bytes,
            lambda most: format_mib(most >> 20),
        ),
    }


def check_resource_sizes(spec: Mapping[str, Any], cluster: ClusterDescription) -> Iterator[tuple[Path, str]]:
    for number, container in enumerate(spec["containers"]):
        resources = container.get("resources") or {}
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        for name, (what, most, read, written) in find_largest_pools(cluster).items():
            section, requested = ("requests", requests[name]) if name in requests else ("limits", limits.get(name))
            amount = _parse_amount(requested, read)
            if amount is not None and amount > most:
                fix = f"Lower it to {written(most)}." if most else "Remove it."
                yield ("containers", number, "resources", section, name), f"{requested} {what} fit on no node. {fix}"


def _parse_amount(amount: object, read: Callable[[str], int]) -> int | None:
    """Parse an amount; return None if it is missing or is a template variable."""
    try:
        return None if amount is None else read(str(amount))
    except ValueError:
        return None


# --- nodes -------------------------------------------------------------------------------------------------------------


def _check_node_selector(spec: Mapping[str, Any], cluster: ClusterDescription) -> Iterator[tuple[Path, str]]:
    """Check the node selector, but only on AWS: elsewhere, nodes may have labels that the description lacks."""
    if not cluster.region:
        return
    for key, value in (spec.get("nodeSelector") or {}).items():
        if key == INSTANCE_TYPE:
            types = sorted({pool.instance_type for pool in cluster.pools if pool.instance_type})
            if value not in types:
                yield (
                    ("nodeSelector", key),
                    f"no pool has instances of type {format_value(value)}. Use {' or '.join(types)}, or remove it.",
                )
        elif not any(part in key for part in OF_NODES) and not any(pool.labels.get(key) == value for pool in cluster.pools):
            yield ("nodeSelector", key), f"no pool has the label {key}: {value}. Remove it."


def _check_tolerations(spec: Mapping[str, Any], cluster: ClusterDescription) -> Iterator[tuple[Path, str]]:
    """Check that the pods tolerate the taints of a pool with enough devices.

    Kubernetes and the queue add tolerations for taints that are named after a resource that a pod requests.
    """
    resources = [container.get("resources") or {} for container in spec["containers"]]
    requested = {name for amounts in resources for name in (*(amounts.get("limits") or {}), *(amounts.get("requests") or {}))}
    gpus = max((_parse_amount((amounts.get("limits") or {}).get(GPU_RESOURCE), int) or 0 for amounts in resources), default=0)
    missing: dict[str, list[TaintDescription]] = {}
    for pool in (pool for pool in cluster.pools if pool.gpus >= gpus):
        refusing = [taint for taint in pool.taints if taint.effect != "PreferNoSchedule" and taint.key not in requested]
        missing[pool.name] = [taint for taint in refusing if not has_toleration(spec, taint)]
    if missing and all(missing.values()):
        name, taints = next(iter(missing.items()))
        listed = join_with_and([f"{taint.key}={taint.value}:{taint.effect}" for taint in taints])
        why = f"the pods do not tolerate the taints of any pool with enough devices: {name} has {listed}"
        yield ("tolerations",), f"{why}. Add tolerations."


def has_toleration(spec: Mapping[str, Any], taint: TaintDescription) -> bool:
    """https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/"""
    return any(
        toleration.get("key") in (None, "", taint.key)
        and toleration.get("effect") in (None, "", taint.effect)
        and (
            toleration.get("operator") == "Exists" or (toleration.get("key") and str(toleration.get("value", "")) == taint.value)
        )
        for toleration in spec.get("tolerations") or ()
    )


def _check_images(spec: Mapping[str, Any], cluster: ClusterDescription) -> Iterator[tuple[Path, str]]:
    registry = cluster.image_registry.rstrip("/")
    own = tuple(f"{place}/" for place in (registry, cluster.image_repository) if place)
    for section in ("initContainers", "containers"):
        for number, container in enumerate(spec.get(section) or ()):
            image = str(container.get("image", ""))
            if registry and image and not image.startswith(own):
                yield (section, number, "image"), f"nodes pull images through {registry}. Use {registry}/{image}."
