"""Stacks with a platform, and the Kubernetes objects that the program creates for them."""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from infra.facts import manifests
from infra.facts.gather import stack_manifests
from infra.jobs.cluster import CONFIG_MAP, CONFIG_MAP_KEY, ClusterDescription
from infra.settings.stack import Settings
from localcloud import mirror
from tests.program.engine import Deployment, Resource, deploy
from tests.pure.world import facts, pool, settings

Manifest = dict[str, Any]

PUBLIC = {"endpointAccess": {"publicCidrs": ["203.0.113.7/32"]}}
TRAIN = pool("train", "p4d.24xlarge", 4)
SINGLE = pool("single", "g5.xlarge", 2)


def asked(*pools: dict[str, Any], storage: dict[str, Any] | None = None, **platform: Any) -> Settings:
    """Return settings with a public API endpoint and, by default, two pools, one of them with EFA."""
    more = {"storage": storage} if storage else {}
    return settings(*(pools or (TRAIN, SINGLE)), target=PUBLIC, platform={"install": None, **platform}, **more)


def deployed(stack: Settings) -> Deployment:
    upstream = manifests.load(stack_manifests(stack), str(mirror.ensure(print)))
    return deploy(stack, facts(stack, manifests=upstream))


@cache
def usual() -> Deployment:
    """Return a deployment with the default platform."""
    return deployed(asked())


def in_cluster(stack: Deployment) -> list[Resource]:
    return [resource for resource in stack.resources if resource.type.startswith("kubernetes:")]


def manifest(resource: Resource) -> Manifest:
    """Return the object as a manifest, with whole numbers as integers: Pulumi sends all numbers as floats."""
    content: Manifest = _whole(json.loads(json.dumps(dict(resource.inputs))))
    return content


def _whole(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _whole(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_whole(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def objects(stack: Deployment, *kinds: str) -> list[Manifest]:
    """Return the objects in the cluster, optionally only those of the given kinds."""
    manifests = [manifest(resource) for resource in in_cluster(stack)]
    return [manifest for manifest in manifests if not kinds or manifest["kind"] in kinds]


def only(stack: Deployment, kind: str, name: str, namespace: str | None = None) -> Manifest:
    matching = [
        manifest
        for manifest in objects(stack, kind)
        if manifest["metadata"]["name"] == name and (namespace is None or manifest["metadata"].get("namespace") == namespace)
    ]
    assert len(matching) == 1, f"{kind} {name}: {len(matching)}"
    return matching[0]


def pods(stack: Deployment) -> Iterator[tuple[str, Manifest]]:
    """Yield the namespace and pod spec of every Deployment and DaemonSet."""
    for manifest in objects(stack, "Deployment", "DaemonSet"):
        yield manifest["metadata"]["namespace"], manifest["spec"]["template"]["spec"]


def quotas(stack: Deployment) -> dict[str, dict[str, str]]:
    """Return the quota of each resource in each flavor."""
    (group,) = only(stack, "ClusterQueue", "default")["spec"]["resourceGroups"]
    return {flavor["name"]: {row["name"]: row["nominalQuota"] for row in flavor["resources"]} for flavor in group["flavors"]}


def description(stack: Deployment) -> ClusterDescription:
    """Return the cluster description stored in the cluster's ConfigMap."""
    return ClusterDescription.from_json(only(stack, "ConfigMap", CONFIG_MAP)["data"][CONFIG_MAP_KEY])
