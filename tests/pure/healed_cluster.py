"""Cluster for node healing tests: the job controller takes its nodes out of service and returns them to service."""

import copy
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from infra.health import journal
from infra.health.annotation import read_annotation
from infra.health.faults import GPU_CONDITION
from infra.health.healing import Policy, Pool
from infra.naming import TAKEN_OUT_ANNOTATION
from infra.platform.job_controller.in_pod.api import ApiError
from infra.platform.job_controller.in_pod.nodes import Nodes
from infra.platform.job_controller.in_pod.trims import trim_node
from tests.pure.controlled_jobs import make_pod

Object = dict[str, Any]
START = datetime(2026, 11, 23, 12, tzinfo=UTC)
WINDOW = timedelta(hours=1)
POLICY = Policy((Pool({"pool": "train"}, 8),))
BUS = "NvidiaXID79Error"


class Killed(Exception):
    """The controller was killed before this request."""


class Cluster:
    """API server with nodes and the controller's journal."""

    def __init__(self, size: int) -> None:
        self.nodes = {f"n{number}": make_node(f"n{number}") for number in range(size)}
        self.config_map: Object | None = None
        self.cordoned: list[tuple[str, datetime]] = []
        self.now, self.left, self.made = START, 10**6, size
        self.silent: dict[str, str] = {}

    def call(self, method: str, path: str, body: Object | None = None, kind: str = "") -> Object:
        self.left -= 1
        if self.left < 0:
            raise Killed
        if path.startswith("api/v1/nodes/"):
            return self._patch_node(path.rpartition("/")[2], body or {})
        if method == "GET" and self.config_map is None:
            raise ApiError(404, "NotFound", path)
        if method != "GET":
            self._store_config_map(method, copy.deepcopy(body or {}))
        return copy.deepcopy(self.config_map or {})

    def _patch_node(self, name: str, body: Object) -> Object:
        node = self.nodes.get(name)
        if node is None or node["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"]:
            raise ApiError(409 if node else 404, "Conflict", name)
        text = body["metadata"]["annotations"][TAKEN_OUT_ANNOTATION]
        if body.get("spec", {}).get("unschedulable"):
            self.cordoned.append((name, self.now))
        node["metadata"]["annotations"] = {} if text is None else {TAKEN_OUT_ANNOTATION: text}
        node["spec"] = {key: value for key, value in {**node["spec"], **body.get("spec", {})}.items() if value is not None}
        node["metadata"]["resourceVersion"] += "1"
        return node

    def _store_config_map(self, method: str, body: Object) -> None:
        version = (self.config_map or {}).get("metadata", {}).get("resourceVersion")
        if (method == "POST") != (self.config_map is None) or body["metadata"].get("resourceVersion") != version:
            raise ApiError(409, "Conflict", "journal")
        self.config_map = {**body, "metadata": {**body["metadata"], "resourceVersion": f"{version or ''}1"}}

    def run_round(
        self, controller: Nodes | None = None, *, busy: Sequence[str] = (), grace: int = 30, policy: Policy = POLICY
    ) -> None:
        trimmed = [trim_node(node) for node in copy.deepcopy(list(self.nodes.values()))]
        pods = [make_pod(f"on-{name}", "worker", node=name) for name in busy]
        for busy_pod in pods:
            busy_pod["spec"]["terminationGracePeriodSeconds"] = grace
        (controller or self.make_controller(policy)).run_round(trimmed, pods, [], self.now)

    def find_silent_nodes(self, nodes: Sequence[Object]) -> dict[str, str]:
        """Replace `Silence.find_silent_nodes`: return the nodes that the test has marked as silent."""
        return self.silent

    def make_controller(self, policy: Policy = POLICY) -> Nodes:
        return Nodes(self, "gpumpi-system", policy, self)  # type: ignore[arg-type]  # `Nodes` only calls `call` and `look`

    def break_node(self, name: str, reason: str = BUS) -> None:
        since = self.now.isoformat()
        self.nodes[name]["status"]["conditions"][1] = {
            "type": GPU_CONDITION, "status": "False", "reason": reason, "lastTransitionTime": since
        }  # fmt: skip
        self.nodes[name]["status"]["allocatable"] = {"nvidia.com/gpu": "7"}

    def repair_node(self, name: str) -> None:
        self.nodes[name]["status"] = make_node(name)["status"]

    def replace(self, name: str) -> None:
        del self.nodes[name]
        self.made += 1
        self.nodes[f"n{self.made}"] = make_node(f"n{self.made}")

    def state(self, name: str) -> str:
        taken_out = read_annotation(self.nodes[name])
        return taken_out.state if taken_out else "healthy"

    @property
    def journal_entries(self) -> list[Object]:
        assert self.config_map is not None
        listed: list[Object] = journal.parse_journal(self.config_map["data"][journal.KEY])["entries"]
        return listed


def make_node(name: str) -> Object:
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": "1", "labels": {"pool": "train"}},
        "spec": {"providerID": f"aws:///us-west-2a/i-{name}"},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}, {"type": GPU_CONDITION, "status": "True"}],
            "allocatable": {"nvidia.com/gpu": "8"},
        },
    }
