"""Status of a cluster at one point in time, as plain values. None means unknown."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final, Literal

from cli.console import to_json
from cli.durations import format_period
from cli.ec2.failed_launches import FailedLaunch
from cli.jobs.state import JobState
from infra.config.messages import join_with_and
from infra.plan.specs import DRAIN_BEFORE_END

Kind = Literal["eks", "ec2", "existing", ""]
UNKNOWN: Final = "?"


def format_number(number: int | None) -> str:
    return UNKNOWN if number is None else str(number)


@dataclass(frozen=True)
class BlockStatus:
    """Capacity Block of a pool."""

    id: str
    state: str
    start: datetime
    end: datetime
    moves_nodes: bool = True
    """Whether nodes start when the block starts, and are drained before it ends. False for EC2 clusters."""

    def sentence(self, now: datetime) -> str:
        """Return when the nodes of the block start, or how much time is left until they are drained."""
        drain = self.end - DRAIN_BEFORE_END
        until = f"nodes are drained from {drain.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
        left = f"Capacity Block {self.id}: {format_period(max(self.end - now, timedelta()))} left"
        is_ahead = self.state != "active" and now < self.start
        if not self.moves_nodes and (self.state == "active" or is_ahead):
            return f"Capacity Block {self.id} is {self.state}: starts in {format_period(self.start - now)}" if is_ahead else left
        if self.state == "active":
            return f"{left}; {until if now < drain else 'its nodes are being drained'}"
        if is_ahead:
            return f"Capacity Block {self.id} is {self.state}: nodes start in {format_period(self.start - now)}; {until}"
        return f"Capacity Block {self.id} is {self.state}"

    def as_json(self, now: datetime) -> dict[str, object]:
        return {
            "reservationId": self.id,
            "state": self.state,
            "start": self.start.isoformat(),
            "end": self.end.isoformat(),
            "drain": (self.end - DRAIN_BEFORE_END).isoformat(),
            "hoursLeft": round(max(self.end - now, timedelta()) / timedelta(hours=1), 2),
        }


@dataclass(frozen=True)
class PoolStatus:
    """Status of a node pool."""

    name: str
    instance_type: str = ""
    ready: int | None = None
    """Number of nodes that Kubernetes reports as Ready; in an EC2 cluster, number of nodes that have joined."""
    nodes: int | None = None
    """Number of nodes, ready or not."""
    wanted: int | None = None
    min_size: int | None = None
    max_size: int | None = None
    gpus: int | None = None
    """Number of GPUs on ready nodes that accept jobs, plus the number of GPUs that pods hold on other nodes."""
    gpus_used: int | None = None
    """Number of GPUs that pods hold on the pool's nodes."""
    problems: tuple[str, ...] = ()
    last_failed_launch: FailedLaunch | None = None
    capacity_block: BlockStatus | None = None

    def merge_with(self, other: "PoolStatus") -> "PoolStatus":
        """Merge this status with the status from another source. If both have a value, keep the value of `self`."""
        own_values = {name: value for name, value in vars(self).items() if value not in (None, "", ())}
        problems = tuple(dict.fromkeys((*self.problems, *other.problems)))
        return replace(other, **{**own_values, "problems": problems})

    def as_json(self, now: datetime) -> dict[str, object]:
        block = self.capacity_block.as_json(now) if self.capacity_block else None
        gpus_free = None if self.gpus is None or self.gpus_used is None else self.gpus - self.gpus_used
        return {**to_json(self), "gpusFree": gpus_free, "capacityBlock": block}


@dataclass(frozen=True)
class QueueStatus:
    """Status of a namespace's queue."""

    namespace: str
    name: str
    admitted: int
    """Number of jobs for which Kueue has reserved quota, whether or not their pods run yet."""
    waiting: int


@dataclass(frozen=True)
class JobLine:
    """A job that has not ended."""

    state: JobState
    waits_for: str = ""

    def as_json(self, now: datetime) -> dict[str, object]:
        return {**self.state.as_json(now), "waitsFor": self.waits_for}


@dataclass(frozen=True)
class VolumeStatus:
    """A shared volume."""

    name: str
    mount_path: str
    namespace: str = ""
    claim: str = ""
    phase: str = ""
    """Phase of the PersistentVolumeClaim. Pods cannot start unless it is `Bound`."""


@dataclass(frozen=True)
class SpendingStatus:
    """Cost of a stack's instances so far."""

    usd: Decimal
    since: datetime
    unknown: tuple[str, ...] = ()
    """Names of items with unknown prices. If there are any, `usd` is a lower bound."""

    def sentence(self) -> str:
        least = "at least " if self.unknown else ""
        lacking = f"; {join_with_and(self.unknown)} is unknown" if self.unknown else ""
        return f"instances so far: {least}{self.usd:,.2f} USD since {self.since.astimezone(UTC):%Y-%m-%d %H:%M} UTC{lacking}"

    def as_json(self) -> dict[str, object]:
        return {
            "usd": None if self.unknown else float(round(self.usd, 4)),
            "knownUsd": float(round(self.usd, 4)),
            "since": self.since.isoformat(),
            "unknown": list(self.unknown),
        }


@dataclass(frozen=True)
class Status:
    """Everything that `status` prints."""

    cluster: str
    kind: Kind = ""
    state: str = ""
    """EKS: the state that AWS reports, such as `ACTIVE`. EC2 cluster: `ready`, or what the cluster is waiting for."""
    version: str = ""
    """Kubernetes version."""
    address: str = ""
    """Address of the API server or the head node."""
    pools: tuple[PoolStatus, ...] = ()
    queues: tuple[QueueStatus, ...] = ()
    jobs: tuple[JobLine, ...] = ()
    ended: Mapping[str, int] = field(default_factory=dict)
    """Number of ended jobs that still exist, keyed by phase."""
    volumes: tuple[VolumeStatus, ...] = ()
    spending: SpendingStatus | None = None
    aws_time: datetime | None = None
    """Current time by AWS's clock, on which the dates of Capacity Blocks and launches are based.

    The local AWS has its own calendar.
    """
    problems: tuple[str, ...] = ()
    """Problems of the cluster as a whole; pools list their own."""
    unknown: tuple[str, ...] = ()
    """One sentence for each failed query: the data that is missing, and the reason."""

    def merge_with(self, other: "Status") -> "Status":
        """Merge this status with the status from another source. Pools are matched by name; the pools of `self` come first."""
        other_pools = {pool.name: pool for pool in other.pools}
        pools = [pool.merge_with(other_pools.pop(pool.name)) if pool.name in other_pools else pool for pool in self.pools]
        own_values = {name: value for name, value in vars(self).items() if value}
        both = {name: (*getattr(self, name), *getattr(other, name)) for name in ("problems", "unknown")}
        return replace(other, **{**own_values, **both, "pools": (*pools, *other_pools.values())})

    def as_json(self, now: datetime) -> dict[str, object]:
        document = to_json(replace(self, pools=(), jobs=(), spending=None))
        del document["awsTime"]
        return {
            **document,
            "at": now.isoformat(),
            "pools": [pool.as_json(self.aws_time or now) for pool in self.pools],
            "jobs": [job.as_json(now) for job in self.jobs],
            "spending": self.spending.as_json() if self.spending else None,
        }
