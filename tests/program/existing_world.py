"""Stack settings and ClusterFacts for an existing cluster."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from infra.clusters import existing
from infra.config.stack_file import RawStack
from infra.facts import manifests
from infra.facts.existing_cluster import ClusterFacts, Node
from infra.facts.gather import list_platform_manifests
from infra.naming import Taint
from infra.preflight import Examined, examine_stack
from infra.settings.existing import ExistingSettings
from localcloud import mirror
from tests.program.engine import Deployment, record_deployment

RACK: Mapping[str, str] = {"example.com/rack": "1"}
POOL: Mapping[str, Any] = {"name": "rack1", "nodeSelector": dict(RACK), "gpusPerNode": 8, "nodes": 2}
LEAST: Mapping[str, Any] = {"target": {"kind": "existing"}, "pools": [POOL]}
SERVER = "https://10.0.0.1:6443"


def make_node(name: str, labels: Mapping[str, str] = RACK, *, gpus: int | None = None, **more: Any) -> Node:
    return replace(Node(name, {"kubernetes.io/hostname": name, **labels}, (), 64_000, 512 * 1024, gpus), **more)


def make_cluster_facts(*nodes: Node, **more: Any) -> ClusterFacts:
    """Return a cluster with a tainted control-plane node, a CPU node and, by default, two rack nodes."""
    control = Taint("node-role.kubernetes.io/control-plane", "")
    own = (make_node("control", {}, taints=(control,)), make_node("cpu", {}))
    base = ClusterFacts(
        SERVER, "admin", "1.35", (*own, *(nodes or (make_node("gpu1"), make_node("gpu2")))), frozenset({"cephfs"})
    )
    return replace(base, **more)


def validate_values(values: Mapping[str, Any], facts: ClusterFacts | None = None) -> Examined[ExistingSettings, ClusterFacts]:
    """Validate the values as `pulumi up` does."""
    raw = RawStack("test", "", dict(values))
    return examine_stack(raw, ExistingSettings, lambda _: facts or make_cluster_facts(), not_queried="", stack="test")


def deploy_existing_target(values: Mapping[str, Any], facts: ClusterFacts | None = None) -> Deployment:
    """Return the resources that the program creates for these values."""
    settings, complete = validate_values(values, facts).settings_and_facts
    complete = replace(
        complete, manifests=manifests.load_manifests(list_platform_manifests(settings.platform), str(mirror.ensure_mirror(print)))
    )
    return record_deployment("test", lambda: existing.build(settings, complete))
