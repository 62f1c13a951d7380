"""Explain why jobs wait, based on their pods, events and Kueue's Workloads.

Each kind of object is listed only once per namespace.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from cli.clusters.kubernetes_access import Cluster, Object
from cli.errors import CommandError
from cli.jobs import objects
from cli.jobs.state import JobState, explain_waiting_job, needs_events
from infra.naming import GPU_RESOURCE
from infra.platform.job_controller.in_pod.phases import Phase

LONGEST = 110
"""Maximum length of a reason in a table, in characters. With --json, the full reason is printed."""


@dataclass
class Waits:
    """Determines why the jobs of a cluster wait. Passes the error message of each failed query to `on_error`."""

    cluster: Cluster
    on_error: Callable[[str], None] = lambda reason: None
    _lists: dict[tuple[str, str], list[Object]] = field(default_factory=dict)

    def reason(self, state: JobState) -> str:
        """Return why the job waits or, if it does not wait, what its record reports about a slow rank or a hang.

        Return an empty string if nothing applies or the reason is unknown.
        """
        if not state.is_waiting and state.phase != Phase.RUNNING:
            return ""
        workloads = self._list_if_allowed("Workload", state.namespace) if state.phase == Phase.QUEUED else []
        workload = next((item for item in workloads if objects.is_job_workload(item, state)), None)
        events = self._list_if_allowed("Event", state.namespace) if needs_events(state, state.pods) else []
        reason = explain_waiting_job(state, state.pods, workload, events)
        return reason or (state.record.slow_rank_reason or state.record.hang if state.record else "")

    def _list_if_allowed(self, kind: str, namespace: str) -> list[Object]:
        if (kind, namespace) not in self._lists:
            fields = {"type": "Warning"} if kind == "Event" else None
            try:
                self._lists[kind, namespace] = self.cluster.list(kind, namespace, fields=fields)
            except CommandError as error:
                self.on_error(str(error))
                self._lists[kind, namespace] = []
        return self._lists[kind, namespace]


def shorten_reason(reason: str) -> str:
    """Shorten the reason why a job waits: reduce Kueue's quota message to the missing GPUs, truncate other reasons.

    >>> shorten_reason("waits in the queue: x, insufficient unused quota for nvidia.com/gpu in flavor train, 2 more needed, y")
    'waits in the queue: 2 more nvidia.com/gpu of pool train needed'
    """
    lacking = re.search(rf"insufficient unused quota for {re.escape(GPU_RESOURCE)} in flavor ([\w-]+), (\d+) more needed", reason)
    if lacking:
        return f"{reason.partition(':')[0]}: {lacking[2]} more {GPU_RESOURCE} of pool {lacking[1]} needed"
    return reason if len(reason) <= LONGEST else f"{reason[: LONGEST - 1]}…"
