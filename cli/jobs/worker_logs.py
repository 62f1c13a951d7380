"""Print the logs of several pods of a job at once. Each line starts with a label for its pod, such as worker-0."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from cli.clusters.kubernetes_access import Cluster, Object
from cli.errors import CommandError, NotFound
from cli.jobs.follow_log import Follower, PodLog, list_job_containers, select_log_pods
from cli.jobs.job_pods import make_log_label, select_launchers, select_workers
from cli.jobs.state import JobState
from cli.output import print_log_line

Choice = Callable[[Sequence[Object], JobState], list[Object]]
"""Selects the pods whose logs are printed."""


def select_worker(index: int) -> Choice:
    return lambda pods, state: select_workers(pods, index)


def select_all_pods(pods: Sequence[Object], state: JobState) -> list[Object]:
    return [*select_launchers(pods), *select_workers(pods)] or select_log_pods(pods, state)


def read_latest_logs(cluster: Cluster, pods: Sequence[Object], state: JobState) -> Iterator[tuple[str, list[str]]]:
    """Yield the label and the log lines of each pod, except pods that a newer pod has replaced."""
    newest: Mapping[str, Object] = {make_log_label(pod, state): pod for pod in pods if pod["status"].get("phase") != "Pending"}
    for name, pod in newest.items():
        lines: list[str] = []
        for container in list_job_containers(pod):
            if {"running", "terminated"} & set(container.get("state", {})):
                lines += PodLog(cluster, pod["metadata"]["name"], state.namespace, container["name"]).lines(follow=False)
        yield name, lines


@dataclass
class FollowerOfPods(Follower):
    """Follows the logs of several pods and prints new lines. Each log has its own thread."""

    choose: Choice = select_all_pods
    prefixed: bool = True
    _threads: dict[tuple[str, str, int], threading.Thread] = field(default_factory=dict)
    _writing: threading.Lock = field(default_factory=threading.Lock)

    def _print_new_lines(self, state: JobState) -> None:
        for pod in self.choose(state.pods, state):
            for container in list_job_containers(pod):
                key = (pod["metadata"]["name"], container["name"], container.get("restartCount", 0))
                ended = "terminated" in container.get("state", {})
                if ended or "running" in container.get("state", {}):
                    self._start_reader(key, make_log_label(pod, state), ended)

    def _start_reader(self, key: tuple[str, str, int], name: str, ended: bool) -> None:
        """Start a thread that prints a log, unless such a thread is running or the log is complete."""
        log = self._logs.setdefault(key, PodLog(self.cluster, key[0], self.namespace, key[1]))
        thread = self._threads.get(key)
        if log.is_complete or (thread and thread.is_alive()):
            return
        self._threads[key] = threading.Thread(target=self._copy_log, args=(log, name, ended), daemon=True)
        self._threads[key].start()

    def _copy_log(self, log: PodLog, name: str, ended: bool) -> None:
        try:
            for line in log.lines(follow=True):
                with self._writing:
                    print_log_line(f"{name} | {line}" if self.prefixed else line, self.out)
            log.is_complete = ended
        except NotFound:
            log.is_complete = True
        except CommandError as error:
            self._print_note(str(error))

    def _print_remaining_lines(self, state: JobState, end: float) -> None:
        self._print_new_lines(state)
        for thread in self._threads.values():
            thread.join(max(0.0, end - time.monotonic()))
