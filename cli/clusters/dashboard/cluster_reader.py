"""Read the dashboard's data with the caller's permissions, at most once per period for all open pages."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, TypeVar

from cli.clusters.dashboard.page_data import Seen, build_page
from cli.clusters.kubernetes_access import Cluster
from cli.clusters.status.cluster_status import Status
from cli.clusters.status.status_command import Look
from cli.errors import CommandError, Forbidden
from cli.jobs import records
from cli.jobs.records import JobRecord
from cli.nodes.health import findings
from cli.nodes.health.health_command import list_node_events, read_journal
from cli.nodes.health.node_health import NodeHealth
from cli.stacks.cost import cost_sources
from cli.stacks.cost.spending import Spending
from infra.config.stack_file import RawStack

EVERY_SECONDS: Final = 4.0
"""Minimum time between two reads. Each open page requests data every 5 s, and all pages share the data."""
SPENDING_SECONDS: Final = 60.0
"""Minimum time between two reads of the cost: it changes slowly, and the queries count against AWS's rate limits."""
NO_STACK: Final = "cost so far: unknown without a stack. Start the dashboard with -s STACK"
NOT_AWS: Final = "cost so far: this cluster does not run in AWS"
NO_NODES: Final = "an EC2 cluster without Kubernetes; `scripts/cluster hosts -s STACK` lists its nodes"

Answer = TypeVar("Answer")


@dataclass
class Kubernetes:
    """Reads data from the cluster in addition to its status. `unknown` contains the reason for each failed query."""

    connect: Callable[[], Cluster]
    unknown: list[str] = field(default_factory=list)
    _cluster: Cluster | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def cluster(self) -> Cluster:
        with self._lock:  # another thread is already reading the spending
            if self._cluster is None:
                self._cluster = self.connect()
            return self._cluster

    def records(self) -> Sequence[JobRecord] | str:
        """Return the records of all job namespaces that the caller may read; if the caller may read none, return the
        reason.
        """
        described = self._query_or_reason(lambda: self.cluster().description())
        if isinstance(described, str):
            return described
        before = len(self.unknown)
        read = [
            self._query_or_none(partial(records.list_records, self.cluster(), place.name), "records of jobs")
            for place in described.namespaces
        ]
        answers = [answer for answer in read if answer is not None]
        if read and not answers:
            reasons, self.unknown[before:] = self.unknown[before:], []
            return "; ".join(reasons)
        return [record for answer in answers for record in answer]

    def nodes(self, jobs: Sequence[JobRecord] | str, now: datetime) -> Sequence[NodeHealth] | str:
        def judge_all_nodes() -> list[NodeHealth]:
            nodes = self.cluster().list("Node")
            events = self._query_or_none(lambda: list_node_events(self.cluster()), "events of nodes") or []
            stored = self._query_or_none(lambda: read_journal(self.cluster()), "journal of nodes")
            readable = [] if isinstance(jobs, str) else jobs
            return [findings.assess_node_health(node, events, readable, now, stored) for node in nodes]

        return self._query_or_reason(judge_all_nodes)

    def _query_or_none(self, question: Callable[[], Answer], what: str) -> Answer | None:
        try:
            return question()
        except CommandError as error:
            self.unknown.append(f"{what}: {error}")
            return None

    def _query_or_reason(self, question: Callable[[], Answer]) -> Answer | str:
        try:
            return question()
        except CommandError as error:
            return str(error)


class SpendingReader:
    """Reads the spending in the background: prices may take seconds, and the page must not wait for them."""

    def __init__(self, raw: RawStack | None, kubernetes: Kubernetes | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._raw, self._kubernetes, self._clock = raw, kubernetes, clock
        self._thread: threading.Thread | None = None
        self._at: float | None = None
        self._last: Spending | str = "cost so far: reading prices"

    def get_latest_spending(self) -> Spending | str:
        """Return the latest result. If the result is too old, start another read in the background."""
        if self._raw is None:
            return NO_STACK
        if self._raw.target_kind not in ("eks", "ec2"):
            return NOT_AWS
        is_old = self._at is None or self._clock() - self._at >= SPENDING_SECONDS
        if is_old and (self._thread is None or not self._thread.is_alive()):
            self._thread = threading.Thread(
                target=self._update_spending, args=(self._raw,), daemon=True
            )  # ^C must not wait for AWS
            self._thread.start()
        return self._last

    def _update_spending(self, raw: RawStack) -> None:
        self._last = self._read_spending(raw)
        self._at = self._clock()

    def _read_spending(self, raw: RawStack) -> Spending | str:
        spent = cost_sources.read_spending_so_far(raw, self._kubernetes.cluster if self._kubernetes else None)
        return f"cost so far: {spent}" if isinstance(spent, str) else spent


class Reader:
    """Returns the document that the page shows, and reads the data again if the last result is too old. Simultaneous
    requests share one result.
    """

    def __init__(
        self,
        look: Look,
        kubernetes: Kubernetes | None,
        spending: SpendingReader,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look, self._kubernetes, self._spending, self._clock = look, kubernetes, spending, clock
        self._lock = threading.Lock()
        self._seen: Seen | None = None
        self._at = 0.0

    def start(self) -> None:
        """Read the data for the first time. Raises CommandError if this fails, except if the caller lacks permissions."""
        try:
            self._seen = self._read_data()
        except Forbidden as error:
            self._seen = self._read_without_status(str(error))
        self._at = self._clock()

    def build_page(self) -> dict[str, Any]:
        with self._lock:
            if self._seen is None or self._clock() - self._at >= EVERY_SECONDS:
                self._seen = self._read_or_keep_last()
                self._at = self._clock()
            data = self._seen
        return build_page(data, datetime.now(UTC))

    def _read_or_keep_last(self) -> Seen:
        try:
            return self._read_data()
        except Forbidden as error:
            return self._read_without_status(str(error))
        except CommandError as error:
            last = self._seen or self._read_without_status("")
            return replace(last, spending=self._spending.get_latest_spending(), stale=str(error))

    def _read_data(self) -> Seen:
        status, _ = self._look()
        return self._read_with_status(status)

    def _read_without_status(self, reason: str) -> Seen:
        return self._read_with_status(Status("", unknown=(reason,) if reason else ()))

    def _read_with_status(self, status: Status) -> Seen:
        now, spending = datetime.now(UTC), self._spending.get_latest_spending()
        if self._kubernetes is None:
            return Seen(now, status, NO_NODES, [], spending)
        self._kubernetes.unknown.clear()
        job_records = self._kubernetes.records()
        nodes = self._kubernetes.nodes(job_records, now)
        return Seen(now, status, nodes, job_records, spending, tuple(self._kubernetes.unknown))
