"""The control loop: after each change, inspect jobs and nodes, record what to do, then act."""

import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial

from . import moments, reconcile, record, restarts, workers
from .actions import Action
from .api import Api, Object
from .cluster import Cluster, read_leases
from .following import Following
from .health import Guard, Health
from .ignored import IgnoredDocuments
from .job import ManagedJob
from .lease import Election
from .nodes import Nodes
from .stacks import Stacks
from .store import Store

GATHER_SECONDS = 0.2
"""Pause after a change to collect further changes: pods of a job start together."""
LOOK_SECONDS = 5.0
"""Maximum pause between two rounds: even without a change, deadlines expire, and decisions wait for nodes."""
PRUNE_SECONDS = 3600.0
SLOW_SECONDS = 10.0
"""Time limit for the jobs of one namespace in a round."""
LEASE_NAME = "gpumpi-job-controller"


class Controller:
    """Keeps the records, restarts and ends jobs, and takes broken nodes out of service, while it is the leader."""

    def __init__(
        self, api: Api, election: Election, namespaces: Sequence[str], health: Health, nodes: Nodes | None = None
    ) -> None:
        self._api, self._election, self._health = api, election, health
        self._changed = threading.Event()
        self._cluster = Cluster(api, namespaces, self._changed.set)
        self._store = Store(api)
        self._nodes = nodes
        self._following, self._stacks = Following(api), Stacks(api)
        self._guard = Guard()
        self._ignored = IgnoredDocuments(api)
        self._waiting: dict[str, list[str]] = {}
        """Maps a namespace to the names of the records that its last round did not reach, in order."""
        self._pruned = 0.0
        self.is_stopping = False

    def run(self) -> None:
        self._health.add([*self._cluster.start(), self._following.start(), self._election.start(self._changed.set)])
        while not self.is_stopping:
            try:
                if self._election.begin_round():
                    self._run_round()
            except Exception as error:  # a failed round must not end the controller
                print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
                time.sleep(1)
            self._health.beat()
            self._changed.wait(LOOK_SECONDS)
            time.sleep(GATHER_SECONDS)
            self._changed.clear()
        self._election.stop()

    def stop(self) -> None:
        self.is_stopping = True
        self._changed.set()

    def _run_round(self) -> None:
        """Process the jobs of each namespace, then the nodes. A failure affects only its job, namespace or node. Raises
        LeaseLost if another controller may lead."""
        synced = [namespace for namespace in self._cluster.namespaces if self._cluster.is_synced(namespace)]
        must_prune = time.monotonic() - self._pruned > PRUNE_SECONDS
        jobs: list[ManagedJob] = []
        for namespace in synced:
            own = self._guard.run(namespace, partial(self._cluster.jobs, namespace))
            if own is not None:
                jobs += own
                self._process_namespace(namespace, own, must_prune=must_prune)
        if self._nodes is not None and self._cluster.has_read_nodes:
            process_nodes = partial(self._nodes.run_round, self._cluster.nodes(), self._cluster.pods(), jobs, datetime.now(UTC))
            self._guard.run("nodes", process_nodes)
        uids = {job.uid for job in jobs}
        self._following.end_round(uids if len(synced) == len(self._cluster.namespaces) else None)
        self._pruned = time.monotonic() if must_prune else self._pruned

    def _process_namespace(self, namespace: str, jobs: Sequence[ManagedJob], *, must_prune: bool) -> None:
        """Process the jobs of a namespace. If the API server is slow, the other jobs wait until the next round, which
        begins with them; other namespaces do not have to wait."""
        now, began = moments.format_time(datetime.now(UTC)), time.monotonic()
        records = self._store.records(namespace, self._cluster.records(namespace))
        named = {record.build_config_map_name(job.name, job.uid): job for job in jobs}
        tasks = [(name, partial(self._process_job, job, records.get(name), now)) for name, job in named.items()]
        tasks += [
            (name, partial(self._complete_record, stored, now))
            for name, stored in records.items()
            if name not in named and stored["record"] is not None
        ]
        places = {name: place for place, name in enumerate(self._waiting.pop(namespace, []))}
        tasks.sort(key=lambda named_task: places.get(named_task[0], len(places)))
        for index, (name, task) in enumerate(tasks):
            if time.monotonic() - began > SLOW_SECONDS:
                self._waiting[namespace] = [name for name, _ in tasks[index:]]
                return
            self._guard.run(f"{namespace}/{name}", task)
            self._health.beat()
        if must_prune:
            self._guard.run(f"old records in {namespace}", partial(self._store.prune_records, records, named, now))
        report = partial(self._ignored.report, namespace, jobs, records.values(), now)
        self._guard.run(f"ignored documents in {namespace}", report)

    def _process_job(self, job: ManagedJob, stored: Object | None, now: str) -> None:
        if stored is not None and stored.get("isNewer"):
            return  # a newer version of the controller handles the job
        ended = stored.get("ended") if stored else None
        before = stored["record"] if stored else None
        if before is not None and before["uid"] != job.uid:
            before = None
        self._perform_actions(job, workers.decide_cleanup(job), now)  # needs no record, which may be impossible to write
        if ended is not None and ended.uid == job.uid:
            self._following.forget_job(job.uid)
            return
        log = self._following.read_job_log(job, before) if before is not None else None
        dump = self._stacks.dump_hanging_job(job, before, now) if before is not None else None
        after = reconcile.update_record(before, job, now, log, dump)
        alive: Mapping[str, str] = read_leases(self._api) if restarts.needs_leases(after, job) else {}
        actions = reconcile.decide_actions(after, job, alive, now)
        if after != before:
            if before is None or after["phase"] != before["phase"]:
                print(f"{job.namespace}/{job.name}: {after['phase']}", flush=True)
            if not self._store.write(after, stored):
                return  # another client changed the record; the next round reads it
        self._perform_actions(job, actions, now)

    def _perform_actions(self, job: ManagedJob, actions: Sequence[Action], now: str) -> None:
        for action in actions:
            print(f"{job.namespace}/{job.name}: {action}", flush=True)
            action.perform(self._api, now)

    def _complete_record(self, stored: Object, now: str) -> None:
        """Complete the record of a job that no longer exists."""
        after = reconcile.close_record(stored["record"], now)
        if after != stored["record"]:
            print(f"{after['namespace']}/{after['name']}: {after['phase']}", flush=True)
            self._store.write(after, stored)


def main(arguments: Sequence[str]) -> int:
    """Run the controller for job namespaces until SIGTERM."""
    health, identity = Health(), os.environ.get("HOSTNAME", "controller")
    election = Election(Api.from_pod(), os.environ["POD_NAMESPACE"], LEASE_NAME, identity)
    api = Api.from_pod().copy(election.allows_changes)
    controller = Controller(api, election, arguments, health, Nodes.from_environment(api))
    signal.signal(signal.SIGTERM, lambda *_: controller.stop())
    health.serve_http()
    controller.run()
    return 0
