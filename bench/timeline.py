"""Timeline of a job: the time at which it reached each stage."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bench.watching import Object, has_true_condition
from infra.naming import ROLE_LABEL

STAGES = ("created", "admitted", "pods made", "pods bound", "workers ready", "launcher runs", "launcher ended", "over")


@dataclass
class Timeline:
    """Thread-safe collector of the events of a job and its pods."""

    workers: int
    times: dict[str, float] = field(default_factory=dict)
    """Maps a stage to the time at which it was reached."""
    ended_launchers: list[float] = field(default_factory=list)
    _seen: dict[str, set[str]] = field(default_factory=dict)
    _changed: threading.Condition = field(default_factory=threading.Condition)

    def handle_pod_event(self, kind: str, pod: Object, now: float) -> None:
        if kind == "DELETED":
            return
        name, role, status = pod["metadata"]["name"], pod["metadata"]["labels"].get(ROLE_LABEL), pod["status"]
        with self._changed:
            if role == "worker":
                self._record_pod_stage("pods made", name, now)
                if pod["spec"].get("nodeName"):
                    self._record_pod_stage("pods bound", name, now)
                if has_true_condition(pod, "Ready"):
                    self._record_pod_stage("workers ready", name, now)
            elif role == "launcher":
                for container_status in status.get("containerStatuses", ()):
                    if "running" in container_status["state"]:
                        self._record_stage("launcher runs", now)
                    if "terminated" in container_status["state"] and name not in self._seen.setdefault("launcher ended", set()):
                        self._seen["launcher ended"].add(name)
                        self.ended_launchers.append(now)
                        self.times["launcher ended"] = now
            self._changed.notify_all()

    def handle_job_event(self, kind: str, job: Object, now: float) -> None:
        """Handle an event of the MPIJob or, with the standalone launcher, of the Job."""
        with self._changed:
            if kind == "DELETED":
                return
            self._record_stage("created", now)
            suspended = job["spec"].get("suspend", job["spec"].get("runPolicy", {}).get("suspend"))
            if not suspended:
                self._record_stage("admitted", now)
            if has_true_condition(job, "Succeeded") or has_true_condition(job, "Complete") or has_true_condition(job, "Failed"):
                self._record_stage("over", now)
            self._changed.notify_all()

    def wait(self, reached: Callable[["Timeline"], Any], seconds: float) -> bool:
        """Wait for a condition, and return whether it became true within `seconds`."""
        with self._changed:
            return bool(self._changed.wait_for(lambda: reached(self), seconds))

    def since(self, begun: float) -> dict[str, float]:
        """Return the seconds from `begun` to each stage that the job reached."""
        return {stage: round(self.times[stage] - begun, 2) for stage in STAGES if stage in self.times}

    def _record_pod_stage(self, stage: str, pod: str, now: float) -> None:
        """Record that a pod has reached a stage, and the time once the pods of all workers have reached it."""
        pods_at_stage = self._seen.setdefault(stage, set())
        pods_at_stage.add(pod)
        if len(pods_at_stage) == self.workers:
            self._record_stage(stage, now)

    def _record_stage(self, stage: str, now: float) -> None:
        self.times.setdefault(stage, now)
