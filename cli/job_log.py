"""Follow a job: its launcher's log through every attempt, then its own result."""

import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TextIO

from cli import job_objects
from cli.cluster_access import Cluster, Failed, Missing, Object
from cli.exit_codes import FINE, JOB_FAILED, NO_CLUSTER
from cli.job_state import JobState, containers, role, unusable_image, waits_for

_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)")

EVERY_SECONDS = 1.0
DRAIN_SECONDS = 10.0
"""How long the log of a finished job is asked for again where it broke off."""

PATIENCE_SECONDS = 120.0
"""How long the API server may be away while somebody looks on: a control plane that is upgraded comes back."""


def log_pods(found: list[Object], state: JobState) -> list[Object]:
    """The pods whose logs are the job's: launchers, one an attempt; without launchers the first worker."""
    if state.launcher == "torchrun":
        chosen = [pod for pod in found if _index(pod) == "0"]
    else:
        chosen = [pod for pod in found if role(pod) == "launcher"]
    return sorted(chosen, key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]))


def lacks_workers(found: list[Object], state: JobState) -> bool:
    """Whether the launcher waits for workers: whoever reads its log till it ends meanwhile misses why they never come."""
    if state.launcher != "openmpi":  # the operator starts a launcher when it has workers
        return False
    workers = [pod for pod in found if role(pod) == "worker"]
    return not all(one.get("ready") for pod in workers for one in pod["status"].get("containerStatuses") or [{}])


def _index(pod: Object) -> str:
    return str(pod["metadata"].get("annotations", {}).get("batch.kubernetes.io/job-completion-index", ""))


def job_containers(pod: Object) -> list[Mapping[str, Any]]:
    """States of containers whose logs are the job's, in their order: not of one that only runs beside the others, without end."""
    beside = {one["name"] for one in pod["spec"].get("initContainers", ()) if one.get("restartPolicy") == "Always"}
    return [one for one in containers(pod) if one["name"] not in beside]


@dataclass
class PodLog:
    """A container's log, read on where it was left."""

    cluster: Cluster
    pod: str
    namespace: str
    container: str
    _last: str = ""
    """Time of the last line; two lines never have the same one, to the nanosecond."""
    is_complete: bool = False

    def lines(self, *, follow: bool) -> Iterator[str]:
        """Lines not given yet. Raises Failed where the node says, in a line without a time, that it cannot go on."""
        for line in self.cluster.log(self.pod, self.namespace, container=self.container, since=self._last or None, follow=follow):
            stamp, _, text = line.partition(" ")
            if not _TIME.fullmatch(stamp):
                raise Failed(f"the log of {self.pod} breaks off: {line}", NO_CLUSTER)
            if stamp > self._last:
                self._last = stamp
                yield text


@dataclass
class Follower:
    """Prints a job's log as it grows."""

    cluster: Cluster
    name: str
    namespace: str
    out: TextIO = field(default_factory=lambda: sys.stdout)
    notes: TextIO = field(default_factory=lambda: sys.stderr)
    keep: Callable[[str], None] = lambda line: None
    """Gets every line of the log too."""
    _logs: dict[tuple[str, str, int], PodLog] = field(default_factory=dict)
    """By pod, container and how often that was started anew: MPI operator's launcher is, in its pod, by default."""
    _told: str = ""

    def run(self) -> tuple[JobState | None, int]:
        """Until the job ends: its last state (None where it was removed) and the exit code.

        Raises Failed where the cluster does not answer, or the job's image can never run.
        """
        last: JobState | None = None
        while True:
            try:
                state, found = self._look()
            except Missing:
                if last is None:
                    raise
                self._note(f"job {self.name} was removed")
                return None, JOB_FAILED
            last = state
            if state.is_over or not lacks_workers(found, state):
                for number, pod in enumerate(log_pods(found, state)):
                    self._stream(pod, number)
            if state.is_over:
                self._drain(found, state)
                return state, FINE if state.phase == "Succeeded" else JOB_FAILED
            if reason := unusable_image(found):
                raise Failed(f"{reason}; remove the job, which can never run: scripts/cluster cancel {self.name}", JOB_FAILED)
            self._tell_why_it_waits(state, found)
            time.sleep(EVERY_SECONDS)

    def _look(self) -> tuple[JobState, list[Object]]:
        """The job and its pods; patient with an API server that is away for a moment."""
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                state = job_objects.find(self.cluster, self.name, self.namespace)
                return state, job_objects.pods(self.cluster, state)
            except Missing:
                raise
            except Failed as error:
                if error.code != NO_CLUSTER or time.monotonic() > end:
                    raise
                self._note(f"{error}; trying on")
                time.sleep(EVERY_SECONDS)

    def _stream(self, pod: Object, number: int) -> None:
        """What a pod's containers have written and write, one after the other, until each ends or the connection does."""
        name = pod["metadata"]["name"]
        for one in job_containers(pod):
            state = one.get("state", {})
            if not ("running" in state or "terminated" in state):
                return
            restarts = one.get("restartCount", 0)
            if (number or restarts) and not any(key[0] == name and key[2] >= restarts for key in self._logs):
                self._note(f"attempt {number + restarts + 1}: {name}")
            for (pod_name, container, count), earlier in self._logs.items():
                earlier.is_complete |= (pod_name, container) == (name, one["name"]) and count < restarts
            new = PodLog(self.cluster, name, self.namespace, one["name"])
            log = self._logs.setdefault((name, one["name"], restarts), new)
            if not log.is_complete:
                log.is_complete = self._print(log) and "terminated" in state

    def _drain(self, found: list[Object], state: JobState) -> None:
        """What the last look did not bring: logs of attempts that began and ended between two looks, or that broke off."""
        end = time.monotonic() + DRAIN_SECONDS
        while True:
            for number, pod in enumerate(log_pods(found, state)):
                self._stream(pod, number)
            if all(log.is_complete for log in self._logs.values()) or time.monotonic() > end:
                return
            time.sleep(EVERY_SECONDS)
            found = job_objects.pods(self.cluster, state)

    def _print(self, log: PodLog) -> bool:
        """Whether all that there is was read."""
        try:
            for line in log.lines(follow=True):
                self.keep(line)
                print(line, file=self.out, flush=True)
        except Failed as error:  # the pod is gone, or its node: the next look says more
            self._note(str(error))
            return False
        return True

    def _tell_why_it_waits(self, state: JobState, found: list[Object]) -> None:
        if state.phase not in ("Queued", "Starting"):
            return
        held = job_objects.workload(self.cluster, state) if state.phase == "Queued" else None
        self._note(waits_for(state, found, held))

    def _note(self, text: str) -> None:
        if text and text != self._told:
            self._told = text
            print(f"cluster: {text}", file=self.notes, flush=True)
