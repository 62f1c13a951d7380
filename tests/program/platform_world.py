"""Stacks with a platform, and the Kubernetes objects that the program creates for them."""

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

from infra.facts import manifests
from infra.facts.gather import list_stack_manifests
from infra.jobs.cluster import CONFIG_MAP, CONFIG_MAP_KEY, ClusterDescription
from infra.settings.stack import Settings
from localcloud import mirror
from tests.program.engine import Deployment, Resource, deploy
from tests.pure.world import account_facts, pool, settings

Manifest = dict[str, Any]

PUBLIC = {"endpointAccess": {"publicCidrs": ["203.0.113.7/32"]}}
TRAIN = pool("train", "p4d.24xlarge", 4)
SINGLE = pool("single", "g5.xlarge", 2)


def make_settings(*pools: dict[str, Any], storage: dict[str, Any] | None = None, **platform: Any) -> Settings:
    """Return settings with a public API endpoint and, by default, two pools, one of them with EFA."""
    more = {"storage": storage} if storage else {}
    return settings(*(pools or (TRAIN, SINGLE)), target=PUBLIC, platform={"install": None, **platform}, **more)


def deploy_platform(stack: Settings) -> Deployment:
    upstream = manifests.load_manifests(list_stack_manifests(stack), str(mirror.ensure_mirror(print)))
    return deploy(stack, account_facts(stack, manifests=upstream))


@cache
def deploy_default_platform() -> Deployment:
    """Return a deployment with the default platform."""
    return deploy_platform(make_settings())


def list_kubernetes_resources(stack: Deployment) -> list[Resource]:
    return [resource for resource in stack.resources if resource.type.startswith("kubernetes:")]


def to_manifest(resource: Resource) -> Manifest:
    """Return the object as a manifest, with whole numbers as integers: Pulumi sends all numbers as floats."""
    content: Manifest = _convert_whole_numbers(json.loads(json.dumps(dict(resource.inputs))))
    return content


def _convert_whole_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _convert_whole_numbers(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_convert_whole_numbers(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def list_manifests(stack: Deployment, *kinds: str) -> list[Manifest]:
    """Return the objects in the cluster, optionally only those of the given kinds."""
    manifests = [to_manifest(resource) for resource in list_kubernetes_resources(stack)]
    return [manifest for manifest in manifests if not kinds or manifest["kind"] in kinds]


def find_object(stack: Deployment, kind: str, name: str, namespace: str | None = None) -> Manifest:
    matching = [
        manifest
        for manifest in list_manifests(stack, kind)
        if manifest["metadata"]["name"] == name and (namespace is None or manifest["metadata"].get("namespace") == namespace)
    ]
    assert len(matching) == 1, f"{kind} {name}: {len(matching)}"
    return matching[0]


def list_pod_specs(stack: Deployment) -> Iterator[tuple[str, Manifest]]:
    """Yield the namespace and pod spec of every Deployment and DaemonSet."""
    for manifest in list_manifests(stack, "Deployment", "DaemonSet"):
        yield manifest["metadata"]["namespace"], manifest["spec"]["template"]["spec"]


def read_quotas(stack: Deployment) -> dict[str, dict[str, str]]:
    """Return the quota of each resource in each flavor."""
    (group,) = find_object(stack, "ClusterQueue", "default")["spec"]["resourceGroups"]
    return {flavor["name"]: {row["name"]: row["nominalQuota"] for row in flavor["resources"]} for flavor in group["flavors"]}


def read_description(stack: Deployment) -> ClusterDescription:
    """Return the cluster description stored in the cluster's ConfigMap."""
    return ClusterDescription.from_json(find_object(stack, "ConfigMap", CONFIG_MAP)["data"][CONFIG_MAP_KEY])
