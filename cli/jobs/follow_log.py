"""Follow a job: print its launcher's log across all attempts, then its result."""

import math
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TextIO

from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_delay, wait_fixed

from cli.clusters.kubernetes_access import Cluster, Object
from cli.errors import CommandError, NotFound
from cli.exit_codes import FAILED, OK, UNREACHABLE
from cli.installation import NAME
from cli.installation import program_name as program
from cli.jobs import foreign_jobs, objects
from cli.jobs.foreign_jobs import get_pod_role, get_worker_index
from cli.jobs.state import (
    JobState,
    explain_stuck_job,
    explain_unusable_image,
    explain_waiting_job,
    list_container_statuses,
    needs_events,
)
from cli.output import print_log_line
from infra.jobs.render import LAUNCHERS
from infra.platform.job_controller.in_pod.phases import Phase

_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)")

EVERY_SECONDS = 1.0
DRAIN_SECONDS = 10.0
"""How long to retry reading the rest of a finished job's log after an error."""

STUCK_SECONDS = 300.0
"""How long to follow a job that cannot start, for example because its image does not exist."""

API_SERVER_SECONDS = 120.0
"""How long the API server may be unavailable while a job is followed, for example during a control plane upgrade."""


def select_log_pods(pods: Sequence[Object], state: JobState) -> list[Object]:
    """Return the pods whose logs make up the job's log: the launcher of each attempt or, without a launcher, rank 0's pod."""
    if (launcher := LAUNCHERS.get(state.launcher)) is None:
        chosen = foreign_jobs.find_log_pods(pods)
    else:
        roles = ("setup", launcher.roles[0])
        chosen = [pod for pod in pods if get_pod_role(pod) in roles and not get_worker_index(pod)]
    return sorted(chosen, key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]))


def is_waiting_for_workers(pods: Sequence[Object], state: JobState) -> bool:
    """Return whether the launcher is waiting for workers. Do not follow the launcher's log yet: meanwhile, nothing
    would print why the workers do not start.
    """
    launcher = LAUNCHERS.get(state.launcher)
    if launcher is None or not launcher.starts_before_workers:
        return False
    workers = [pod for pod in pods if get_pod_role(pod) == "worker"]
    return not all(container.get("ready") for pod in workers for container in pod["status"].get("containerStatuses") or [{}])


def list_job_containers(pod: Object) -> list[Mapping[str, Any]]:
    """Return the statuses of the containers whose logs make up the job's log, in the order of the logs.

    Sidecars are left out because they never end.
    """
    sidecars = {
        container["name"] for container in pod["spec"].get("initContainers", ()) if container.get("restartPolicy") == "Always"
    }
    return [container for container in list_container_statuses(pod) if container["name"] not in sidecars]


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
        """Yield new lines. A line without a timestamp is an error message from the node and raises CommandError. Only
        the first line may differ: it can be the end of a long line, since the kubelet writes one timestamp per line.
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
                state = self._read_state()
            except NotFound:
                if last is None:
                    raise
                self._print_note(f"job {self.name} was deleted")
                return None, FAILED
            last = state
            self._print_new_lines(state)
            if state.is_over:
                self._print_missing_lines(state)
                return state, OK if state.phase == Phase.SUCCEEDED else FAILED
            if reason := explain_unusable_image(state.pods):
                fix = f"the job can never run. Cancel it: {program()} cancel {self.name}"
                raise CommandError(f"{reason}; {fix}", FAILED)
            self._print_wait_reason(state)
            time.sleep(EVERY_SECONDS)

    def _read_state(self) -> JobState:
        """Return the job. Retries while the API server is unavailable."""

        def report_retry(attempt: RetryCallState) -> None:
            self._print_note(f"{attempt.outcome.exception() if attempt.outcome else ''}; retrying")

        retrying = Retrying(
            retry=retry_if_exception(lambda error: isinstance(error, CommandError) and error.code == UNREACHABLE),
            stop=stop_after_delay(API_SERVER_SECONDS),
            wait=wait_fixed(EVERY_SECONDS),
            before_sleep=report_retry,
            reraise=True,
        )
        return retrying(objects.find_job, self.cluster, self.name, self.namespace)

    def _print_new_lines(self, state: JobState) -> None:
        if state.is_over or not is_waiting_for_workers(state.pods, state):
            self._print_remaining_lines(state, math.inf)

    def _stream_pod_log(self, pod: Object, number: int) -> None:
        """Print the logs of a pod's containers in order, each until the container or the connection ends."""
        name = pod["metadata"]["name"]
        for container in list_job_containers(pod):
            state = container.get("state", {})
            if not ("running" in state or "terminated" in state):
                return
            restarts = container.get("restartCount", 0)
            if (number or restarts) and not any(key[0] == name and key[2] >= restarts for key in self._logs):
                self._print_note(f"attempt {number + restarts + 1}: {name}")
            for (pod_name, container_name, count), earlier in self._logs.items():
                earlier.is_complete |= (pod_name, container_name) == (name, container["name"]) and count < restarts
            new = PodLog(self.cluster, name, self.namespace, container["name"])
            log = self._logs.setdefault((name, container["name"], restarts), new)
            if not log.is_complete:
                log.is_complete = self._print_log(log) and "terminated" in state

    def _print_missing_lines(self, state: JobState) -> None:
        """Print the missing lines: the rest of interrupted logs, and the logs of attempts that ran entirely between two
        polls.
        """
        end = time.monotonic() + DRAIN_SECONDS
        while True:
            self._print_remaining_lines(state, end)
            if all(log.is_complete for log in self._logs.values()) or time.monotonic() > end:
                return
            time.sleep(EVERY_SECONDS)
            state = replace(state, pods=objects.list_pods(self.cluster, state))

    def _print_remaining_lines(self, state: JobState, end: float) -> None:
        """Print the missing lines of a job that has ended, at most until the time `end`."""
        for number, pod in enumerate(select_log_pods(state.pods, state)):
            self._stream_pod_log(pod, number)

    def _print_log(self, log: PodLog) -> bool:
        """Print new lines; return whether the log was read to its end."""
        try:
            for line in log.lines(follow=True):
                self.keep(line)
                print_log_line(line, self.out)
        except CommandError as error:  # the pod or its node may be gone; the next poll will show the reason
            self._print_note(str(error))
            return False
        return True

    def _print_wait_reason(self, state: JobState) -> None:
        warnings = objects.list_warnings(self.cluster, self.namespace) if needs_events(state, state.pods) else []
        suffix = self._check_if_stuck(state, warnings)
        if state.is_waiting:
            workload = objects.find_workload(self.cluster, state) if state.phase == Phase.QUEUED else None
            self._print_note(explain_waiting_job(state, state.pods, workload, warnings) + suffix)

    def _check_if_stuck(self, state: JobState, warnings: list[Object]) -> str:
        """Return a suffix for the note about a job that cannot start; empty for other jobs. Raises CommandError after
        STUCK_SECONDS.
        """
        reason = explain_stuck_job(state, state.pods, warnings)
        if not reason:
            self._stuck_since = None
            return ""
        now, minutes = self.clock(), f"{STUCK_SECONDS / 60:g} minutes"
        self._stuck_since = now if self._stuck_since is None else self._stuck_since
        if now - self._stuck_since >= STUCK_SECONDS:
            fix = f"delete it: {program()} cancel {self.name}"
            raise CommandError(f"not started for {minutes}: {reason}; {fix}", FAILED)
        return f"; this command stops waiting after {minutes}"

    def _print_note(self, text: str) -> None:
        if text and text != self._last_note:
            self._last_note = text
            print(f"{NAME}: {text}", file=self.notes, flush=True)
