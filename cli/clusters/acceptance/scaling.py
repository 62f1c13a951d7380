"""Scale a pool from zero with a job, and wait until the autoscaler has removed the pool's nodes again."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from cli.clusters.acceptance import nodes
from cli.clusters.acceptance.checklist import Notebook
from cli.clusters.acceptance.own_jobs import JobWorld
from cli.clusters.status.cluster_status import PoolStatus
from cli.console import say
from cli.errors import CommandError
from infra.jobs.cluster import PoolDescription

NAME: Final = "scale"
POLL_SECONDS: Final = 2.0
REMOVAL_MINUTES: Final = 15.0
"""Maximum time to remove an idle node after its `idleMinutes`: drain, terminate, delete the Node object."""
AWS_SECONDS: Final = 120.0
SIMULATED_LABEL: Final = "gpumpi.dev/simulated"
"""Label of nodes that are only simulated because the local cloud has reached its limit. Such nodes run no pods."""
NO_ROOM: Final = "only simulated until another node is removed: the local cloud's limit (GPUMPI_LOCAL_NODES) is reached"


@dataclass(frozen=True)
class Scaling:
    """Test that scales one pool of an EKS cluster."""

    jobs: JobWorld
    pool: PoolDescription
    idle_minutes: float
    in_aws: Callable[[], PoolStatus]
    """Queries AWS for the desired size and failed launches of the pool."""
    pause: Callable[[float], Any] = time.sleep
    clock: Callable[[], float] = time.monotonic

    def run(self, notes: Notebook) -> None:
        before = self.count()
        if before:
            self._until_empty(notes, f"before the job, with {nodes.counted(before)}")
        self._up(notes)
        self._until_empty(notes, "after the job")
        wanted = self._settled()
        notes.saw(f"autoscaling describe-auto-scaling-groups: desired size of pool {self.pool.name}", wanted)
        if wanted:
            notes.fail(f"pool {self.pool.name}: its nodes are gone, but AWS still reports desired size {wanted}")

    def count(self) -> int:
        """Return the number of the pool's Node objects, ready or not."""
        return len(self.jobs.cluster.list("Node", selector=self.pool.selector))

    def _up(self, notes: Notebook) -> None:
        """Run a job on the empty pool, while a thread prints the number of the pool's nodes."""
        started = self.clock()
        job = self.jobs.job(NAME, self.pool.name, 1, ("true",))
        self.jobs.submit(job)
        ended = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(ended,), daemon=True)
        watcher.start()
        try:
            state = self.jobs.follow(job, lambda line: None)
            found = nodes.of_pool(self.pool, self.jobs.cluster.list("Node"))
        except CommandError as error:
            raise CommandError(f"{error}{self._failed_launch()}") from None
        finally:
            ended.set()
            watcher.join()
            self.jobs.delete(job.name)
        seconds = self.clock() - started
        notes.saw(f"job {job.name}: phase, on a pool that had no nodes", f"{state.phase} after {seconds:.0f} s")
        if state.phase != "Succeeded":
            notes.fail(f"the job on the empty pool {self.pool.name} is {state.phase}: {state.reason}{self._failed_launch()}")
        if not found:
            notes.fail(f"pool {self.pool.name} has no ready node after the job, which ran elsewhere")
        for node in found:
            nodes.check_node(notes, self.pool, node)

    def _watch(self, ended: threading.Event) -> None:
        """Print the number of nodes whenever it changes. The job's follower prints why the job is waiting."""
        last = ""
        while not ended.wait(POLL_SECONDS):
            try:
                there = self.jobs.cluster.list("Node", selector=self.pool.selector)
            except CommandError:
                continue  # the job's follower reports an unavailable API server
            simulated = sum(SIMULATED_LABEL in one["metadata"]["labels"] for one in there)
            text = f"  pool {self.pool.name}: {nodes.counted(len(there))}{f', {simulated} {NO_ROOM}' if simulated else ''}"
            if text != last:
                last = text
                say(text)

    def _failed_launch(self) -> str:
        launch = self.in_aws().failed_launch
        return f"; last failed launch: {launch.reason}" if launch and not launch.is_over else ""

    def _until_empty(self, notes: Notebook, when: str) -> None:
        """Wait until the pool has no nodes. Raises CommandError if this takes too long."""
        started, last = self.clock(), -1
        limit = (self.idle_minutes + REMOVAL_MINUTES) * 60
        while there := self.count():
            seconds = self.clock() - started
            if seconds > limit:
                raise CommandError(
                    f"pool {self.pool.name} still has {nodes.counted(there)} after {seconds / 60:.0f} minutes ({when})"
                )
            if there != last:
                last = there
                say(f"  pool {self.pool.name}: {nodes.counted(there)}; removed after {self.idle_minutes:g} idle minutes")
            self.pause(POLL_SECONDS)
        seconds = self.clock() - started
        notes.saw(f"nodes of pool {self.pool.name} {when}", f"0 after {seconds:.0f} s")

    def _settled(self) -> int | None:
        """Wait until the desired size is 0, and return 0; at the time limit, return the last desired size."""
        started = self.clock()
        while (wanted := self.in_aws().wanted) and self.clock() - started < AWS_SECONDS:
            self.pause(POLL_SECONDS)
        return wanted
