"""Explain why jobs wait, based on their pods, events and Kueue's Workloads.

Each kind of object is listed only once per namespace.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from cli.clusters.kubernetes_access import Cluster, Object
from cli.errors import CommandError
from cli.jobs import foreign_jobs, objects, records
from cli.jobs.state import JobState, lacks_reason, waits_for
from infra.naming import GPU_RESOURCE

Answer = TypeVar("Answer")
LONGEST = 110
"""Maximum length of a reason in a table, in characters. With --json, the full reason is printed."""


@dataclass
class Waits:
    """Determines why the jobs of a cluster wait. Passes the error message of each failed query to `on_error`."""

    cluster: Cluster
    on_error: Callable[[str], None] = lambda reason: None
    _read: dict[tuple[str, str], list[Object]] = field(default_factory=dict)
    _records: dict[str, list[records.JobRecord]] = field(default_factory=dict)

    def reason(self, state: JobState) -> str:
        """Return why the job waits or, if it does not wait, what its record reports about a slow rank or a hang.

        Return an empty string if nothing applies or the reason is unknown.
        """
        if state.phase not in ("Queued", "Starting", "Running"):
            return ""
        pods = [one for one in self._list("Pod", state.namespace) if foreign_jobs.job_of(one) == state.name]
        workloads = self._list("Workload", state.namespace) if state.phase == "Queued" else []
        held = next((one for one in workloads if objects.is_of(one, state)), None)
        events = self._list("Event", state.namespace) if lacks_reason(state, pods) else []
        return waits_for(state, pods, held, events) or self._hang(state)

    def _hang(self, state: JobState) -> str:
        """Return the slow rank that the job's record reports or, if there is none, the hang before the last restart."""
        if state.namespace not in self._records:
            self._records[state.namespace] = self._query(partial(records.all_records, self.cluster, state.namespace))
        record = records.of_job(self._records[state.namespace], state)
        return record.slow or record.hang if record else ""

    def _list(self, kind: str, namespace: str) -> list[Object]:
        if (kind, namespace) not in self._read:
            fields = {"type": "Warning"} if kind == "Event" else None
            self._read[kind, namespace] = self._query(partial(self.cluster.list, kind, namespace, fields=fields))
        return self._read[kind, namespace]

    def _query(self, question: Callable[[], list[Answer]]) -> list[Answer]:
        try:
            return question()
        except CommandError as error:
            self.on_error(str(error))
            return []


def shortened(reason: str) -> str:
    """Shorten the reason why a job waits: reduce Kueue's quota message to the missing GPUs, truncate other reasons.

    >>> shortened("waits in the queue: x, insufficient unused quota for nvidia.com/gpu in flavor train, 2 more needed, y")
    'waits in the queue: 2 more nvidia.com/gpu of pool train needed'
    """
    lacking = re.search(rf"insufficient unused quota for {re.escape(GPU_RESOURCE)} in flavor ([\w-]+), (\d+) more needed", reason)
    if lacking:
        return f"{reason.partition(':')[0]}: {lacking[2]} more {GPU_RESOURCE} of pool {lacking[1]} needed"
    return reason if len(reason) <= LONGEST else f"{reason[: LONGEST - 1]}…"
