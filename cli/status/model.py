"""What is known of a cluster at one moment. Plain values; None is what nobody could tell."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Literal

from cli.job_state import JobState
from cli.launches import FailedLaunch

Kind = Literal["eks", "ec2", "existing", ""]


@dataclass(frozen=True)
class PoolStatus:
    """Nodes of one kind."""

    name: str
    instance_type: str = ""
    ready: int | None = None
    """Nodes that take jobs; in a plain EC2 cluster those that have joined."""
    there: int | None = None
    """Nodes, ready or not."""
    wanted: int | None = None
    minimum: int | None = None
    maximum: int | None = None
    gpus: int | None = None
    """What the nodes offer; those that are not ready offer nothing."""
    gpus_used: int | None = None
    """What pods on them hold."""
    problems: tuple[str, ...] = ()
    failed_launch: FailedLaunch | None = None

    def merged(self, other: "PoolStatus") -> "PoolStatus":
        """With what another source knows of it; where both know something, this one's word counts."""
        known = {name: value for name, value in vars(self).items() if value not in (None, "", ())}
        problems = tuple(dict.fromkeys((*self.problems, *other.problems)))
        return replace(other, **{**known, "problems": problems})

    def as_json(self) -> dict[str, object]:
        return {
            "name": self.name,
            "instanceType": self.instance_type,
            "ready": self.ready,
            "nodes": self.there,
            "wanted": self.wanted,
            "minSize": self.minimum,
            "maxSize": self.maximum,
            "gpus": self.gpus,
            "gpusUsed": self.gpus_used,
            "gpusFree": None if self.gpus is None or self.gpus_used is None else self.gpus - self.gpus_used,
            "problems": list(self.problems),
            "lastFailedLaunch": self.failed_launch.as_json() if self.failed_launch else None,
        }


@dataclass(frozen=True)
class QueueStatus:
    """Where jobs of a namespace wait."""

    namespace: str
    name: str
    admitted: int
    """Workloads that have their quota, whether their pods run already or not."""
    waiting: int

    def as_json(self) -> dict[str, object]:
        return {"namespace": self.namespace, "name": self.name, "admitted": self.admitted, "waiting": self.waiting}


@dataclass(frozen=True)
class JobLine:
    """A job that is not over."""

    state: JobState
    waits_for: str = ""

    def as_json(self, now: datetime) -> dict[str, object]:
        return {**self.state.as_json(now), "waitsFor": self.waits_for}


@dataclass(frozen=True)
class VolumeStatus:
    """What jobs share."""

    name: str
    mount_path: str
    namespace: str = ""
    claim: str = ""
    phase: str = ""
    """`Bound`; anything else keeps pods from starting."""

    def as_json(self) -> dict[str, object]:
        return {
            "name": self.name,
            "namespace": self.namespace,
            "claim": self.claim,
            "mountPath": self.mount_path,
            "phase": self.phase,
        }


@dataclass(frozen=True)
class Status:
    """One screen."""

    cluster: str
    kind: Kind = ""
    state: str = ""
    """As EKS says it (`ACTIVE`), or of a plain EC2 cluster `ready` or what it waits for."""
    version: str = ""
    """Of Kubernetes."""
    address: str = ""
    """Where it answers."""
    pools: tuple[PoolStatus, ...] = ()
    queues: tuple[QueueStatus, ...] = ()
    jobs: tuple[JobLine, ...] = ()
    ended: Mapping[str, int] = field(default_factory=dict)
    """`Succeeded` and `Failed` -> jobs that are still there to be read."""
    volumes: tuple[VolumeStatus, ...] = ()
    problems: tuple[str, ...] = ()
    """Of the cluster as a whole."""
    unknown: tuple[str, ...] = ()
    """What could not be asked, and why."""

    def merged(self, other: "Status") -> "Status":
        """With what another source knows; pools by name, in this one's order first."""
        others = {pool.name: pool for pool in other.pools}
        pools = [pool.merged(others.pop(pool.name)) if pool.name in others else pool for pool in self.pools]
        known = {name: value for name, value in vars(self).items() if value}
        both = {name: (*getattr(self, name), *getattr(other, name)) for name in ("problems", "unknown")}
        return replace(other, **{**known, **both, "pools": (*pools, *others.values())})

    def as_json(self, now: datetime) -> dict[str, object]:
        return {
            "cluster": self.cluster,
            "kind": self.kind,
            "state": self.state,
            "version": self.version,
            "address": self.address,
            "at": now.isoformat(),
            "pools": [one.as_json() for one in self.pools],
            "queues": [one.as_json() for one in self.queues],
            "jobs": [one.as_json(now) for one in self.jobs],
            "ended": dict(self.ended),
            "volumes": [one.as_json() for one in self.volumes],
            "problems": list(self.problems),
            "unknown": list(self.unknown),
        }
