"""Follow a job: print its launcher's log across all attempts, then its result."""

import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TextIO

from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_delay, wait_fixed

from cli.clusters.kubernetes_access import Cluster, Object
from cli.errors import CommandError, NotFound
from cli.exit_codes import FAILED, OK, UNREACHABLE
from cli.installation import NAME
from cli.installation import command as program
from cli.jobs import foreign_jobs, objects
from cli.jobs.state import JobState, containers, lacks_reason, role, stuck, unusable_image, waits_for

_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)")

EVERY_SECONDS = 1.0
DRAIN_SECONDS = 10.0
"""How long to retry reading the rest of a finished job's log after an error."""

STUCK_SECONDS = 300.0
"""How long to follow a job that cannot start, for example because its image does not exist."""

API_SERVER_SECONDS = 120.0
"""How long the API server may be unavailable while a job is followed, for example during a control plane upgrade."""


def log_pods(found: list[Object], state: JobState) -> list[Object]:
    """Return the pods whose logs make up the job's log: the launcher of each attempt or, without one, rank 0's pod."""
    if state.launcher == "torchrun":
        chosen = [pod for pod in found if _index(pod) == "0" or role(pod) == "setup"]
    elif not state.has_launcher:
        chosen = foreign_jobs.first_rank(found)
    else:
        chosen = [pod for pod in found if role(pod) in ("launcher", "setup")]
    return sorted(chosen, key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]))


def lacks_workers(found: list[Object], state: JobState) -> bool:
    """Return whether the launcher is waiting for workers. The launcher's log must not be followed yet: meanwhile, the
    reason why the workers do not start would not be printed.
    """
    if state.launcher != "standalone":  # the MPI operator starts the launcher once the workers are ready
        return False
    workers = [pod for pod in found if role(pod) == "worker"]
    return not all(one.get("ready") for pod in workers for one in pod["status"].get("containerStatuses") or [{}])


def _index(pod: Object) -> str:
    return str(pod["metadata"].get("annotations", {}).get("batch.kubernetes.io/job-completion-index", ""))


def job_containers(pod: Object) -> list[Mapping[str, Any]]:
    """Return the statuses of the containers whose logs make up the job's log, in the order of the logs.

    Sidecars are left out because they never end.
    """
    sidecars = {one["name"] for one in pod["spec"].get("initContainers", ()) if one.get("restartPolicy") == "Always"}
    return [one for one in containers(pod) if one["name"] not in sidecars]


@dataclass
class PodLog:
    """Log of one container. Each read continues where the previous one ended."""

    cluster: Cluster
    pod: str
    namespace: str
    container: str
    _last: str = ""
    """Timestamp of the last line. Timestamps include nanoseconds, so no two lines have the same timestamp."""
    is_complete: bool = False

    def lines(self, *, follow: bool) -> Iterator[str]:
        """Yield new lines. A line without a timestamp is an error message from the node and raises CommandError. Only the
        first line may be something else: the end of a long line, since the kubelet writes one timestamp per line.
        """
        since, rest = self._last or None, ""
        for number, line in enumerate(
            self.cluster.log(self.pod, self.namespace, container=self.container, since=since, follow=follow)
        ):
            stamp, _, text = line.partition(" ")
            if not _TIME.fullmatch(stamp):
                if number or since is None:
                    raise CommandError(f"the log of {self.pod} ended early: {line}", UNREACHABLE)
                rest = line
            elif stamp > self._last:
                self._last = stamp
                yield text
            rest = rest if number == 0 else ""
        if rest:
            raise CommandError(f"the log of {self.pod} ended early: {rest}", UNREACHABLE)


@dataclass
class Follower:
    """Prints a job's log as it grows."""

    cluster: Cluster
    name: str
    namespace: str
    out: TextIO = field(default_factory=lambda: sys.stdout)
    notes: TextIO = field(default_factory=lambda: sys.stderr)
    keep: Callable[[str], None] = lambda line: None
    """Called with every log line before the line is printed."""
    _logs: dict[tuple[str, str, int], PodLog] = field(default_factory=dict)
    """(Pod, container, restart count) -> log. By default, the MPI operator restarts the launcher within its pod."""
    _last_note: str = ""
    _stuck_since: float | None = None
    clock: Callable[[], float] = time.monotonic

    def run(self) -> tuple[JobState | None, int]:
        """Follow until the job ends; return its last state (None if it was deleted) and the exit code.

        Raises CommandError if the cluster does not answer, or if the job can never run with its image. It also raises
        CommandError if rejected pods or an image pull error keep the job from starting for STUCK_SECONDS.
        """
        last: JobState | None = None
        while True:
            try:
                state, found = self._look()
            except NotFound:
                if last is None:
                    raise
                self._note(f"job {self.name} was deleted")
                return None, FAILED
            last = state
            self._print_new(found, state)
            if state.is_over:
                self._drain(found, state)
                return state, OK if state.phase == "Succeeded" else FAILED
            if reason := unusable_image(found):
                fix = f"the job can never run. Cancel it: {program()} cancel {self.name}"
                raise CommandError(f"{reason}; {fix}", FAILED)
            self._note_why_it_waits(state, found)
            time.sleep(EVERY_SECONDS)

    def _look(self) -> tuple[JobState, list[Object]]:
        """Return the job and its pods. Retries while the API server is unavailable."""

        def look() -> tuple[JobState, list[Object]]:
            state = objects.find(self.cluster, self.name, self.namespace)
            return state, objects.pods(self.cluster, state)

        def note(attempt: RetryCallState) -> None:
            self._note(f"{attempt.outcome.exception() if attempt.outcome else ''}; retrying")

        retrying = Retrying(
            retry=retry_if_exception(lambda error: isinstance(error, CommandError) and error.code == UNREACHABLE),
            stop=stop_after_delay(API_SERVER_SECONDS),
            wait=wait_fixed(EVERY_SECONDS),
            before_sleep=note,
            reraise=True,
        )
        return retrying(look)

    def _print_new(self, found: list[Object], state: JobState) -> None:
        if state.is_over or not lacks_workers(found, state):
            for number, pod in enumerate(log_pods(found, state)):
                self._stream(pod, number)

    def _stream(self, pod: Object, number: int) -> None:
        """Print the logs of a pod's containers in order, each until the container or the connection ends."""
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
        """Print the missing lines: the rest of interrupted logs, and the logs of attempts that ran entirely between two
        polls.
        """
        end = time.monotonic() + DRAIN_SECONDS
        while True:
            for number, pod in enumerate(log_pods(found, state)):
                self._stream(pod, number)
            if all(log.is_complete for log in self._logs.values()) or time.monotonic() > end:
                return
            time.sleep(EVERY_SECONDS)
            found = objects.pods(self.cluster, state)

    def _print(self, log: PodLog) -> bool:
        """Print new lines; return whether the log was read to its end."""
        try:
            for line in log.lines(follow=True):
                self.keep(line)
                print(line, file=self.out, flush=True)
        except CommandError as error:  # the pod or its node may be gone; the next poll will show the reason
            self._note(str(error))
            return False
        return True

    def _note_why_it_waits(self, state: JobState, found: list[Object]) -> None:
        warnings = objects.warnings(self.cluster, self.namespace) if lacks_reason(state, found) else []
        suffix = self._stuck(state, found, warnings)
        if state.phase not in ("Queued", "Starting"):
            return
        held = objects.workload(self.cluster, state) if state.phase == "Queued" else None
        self._note(waits_for(state, found, held, warnings) + suffix)

    def _stuck(self, state: JobState, found: list[Object], warnings: list[Object]) -> str:
        """Return a suffix for the note about a job that cannot start; empty for other jobs. Raises CommandError after
        STUCK_SECONDS.
        """
        reason = stuck(state, found, warnings)
        if not reason:
            self._stuck_since = None
            return ""
        now, minutes = self.clock(), f"{STUCK_SECONDS / 60:g} minutes"
        self._stuck_since = now if self._stuck_since is None else self._stuck_since
        if now - self._stuck_since >= STUCK_SECONDS:
            fix = f"delete it: {program()} cancel {self.name}"
            raise CommandError(f"not started for {minutes}: {reason}; {fix}", FAILED)
        return f"; this command stops waiting after {minutes}"

    def _note(self, text: str) -> None:
        if text and text != self._last_note:
            self._last_note = text
            print(f"{NAME}: {text}", file=self.notes, flush=True)
