"""Record when a broken node and its job's pods reach each stage, as observed through watches."""

import threading
from collections.abc import Collection
from dataclasses import dataclass, field

from bench.timed_job import LIMIT_SECONDS
from bench.watching import Object, has_true_condition
from infra.health.faults import READY
from infra.naming import TAKEN_OUT_ANNOTATION

REPORTED, CORDONED, NOTICED = "reported", "cordoned", "hang noticed"
TOLD = "ranks told to end"
DOWN = "all ranks have ended"
NEW_NODE = "new node is ready"
BACK = "in service again"


@dataclass
class Seen:
    """Times at which the broken nodes, the job, and the pods of the job's first attempt reached each stage."""

    broken: Collection[str]
    """Names of the broken nodes."""
    condition: str
    existing_nodes: Collection[str]
    """Names of the nodes that existed before the fault."""
    pods: Collection[str]
    """UIDs of the workers' pods at the time of the fault."""
    times: dict[str, float] = field(default_factory=dict)
    _ended: set[str] = field(default_factory=set)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def handle_node_event(self, kind: str, node: Object, now: float) -> None:
        name = node["metadata"]["name"]
        if name not in self.existing_nodes and has_true_condition(node, READY):
            self._record_stage(NEW_NODE, now)
        if name not in self.broken:
            return
        is_broken = not has_true_condition(node, self.condition)
        is_taken_out = TAKEN_OUT_ANNOTATION in (node["metadata"].get("annotations") or {})
        if is_broken or is_taken_out or kind == "DELETED":
            self._record_stage(REPORTED, now)
        if node["spec"].get("unschedulable"):
            self._record_stage(CORDONED, now)
        elif CORDONED in self.times and not is_broken:
            self._record_stage(BACK, now)

    def handle_pod_event(self, kind: str, pod: Object, now: float) -> None:
        uid = pod["metadata"]["uid"]
        if uid not in self.pods:
            return
        if kind == "DELETED" or pod["metadata"].get("deletionTimestamp"):
            self._record_stage(TOLD, now)
        statuses = pod.get("status", {}).get("containerStatuses", [])
        if kind == "DELETED" or any("terminated" in status["state"] for status in statuses):
            self._ended.add(uid)
        if self._ended >= set(self.pods):
            self._record_stage(DOWN, now)

    def handle_kubernetes_event(self, _: str, event: Object, now: float) -> None:
        if event.get("reason") == "Hang":
            self._record_stage(NOTICED, now)

    def wait(self, stage: str, seconds: float = LIMIT_SECONDS) -> bool:
        """Wait for a stage, and return whether it was reached within `seconds`."""
        with self._changed:
            return self._changed.wait_for(lambda: stage in self.times, seconds)

    def _record_stage(self, stage: str, now: float) -> None:
        with self._changed:
            self.times.setdefault(stage, now)
            self._changed.notify_all()
