"""Interface that `eks` and `ec2` implement for the verb: the rows of a target, their cost, and the cleanup."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from cli.clusters.acceptance.checklist import Check
from cli.clusters.acceptance.cost import Cost
from cli.clusters.acceptance.report import LeftOut
from infra.jobs.smoke import Level


@dataclass(frozen=True)
class Options:
    """Options of the verb that the rows need."""

    level: Level
    minutes: float
    pool: str | None = None
    scale_pool: str | None = None
    image: str | None = None
    namespace: str | None = None
    kubeconfig: Path | None = None
    context: str | None = None
    identity: Path | None = None


@dataclass(frozen=True)
class Plan:
    """Rows and cost of a run."""

    checks: Sequence[Check]
    cost: Cost
    left_out: Sequence[LeftOut] = field(default=())


class Target(Protocol):
    """A running stack."""

    kind: str
    cluster: str
    region: str

    def foreign(self) -> list[str]:
        """Return descriptions of jobs and processes that use the cluster and that acceptance did not start."""

    def emulated(self) -> Mapping[str, str]:
        """Return the nodes' declarations about emulated devices."""

    def plan(self) -> Plan:
        """Return the rows in order, and their cost. Raises CommandError."""

    def clean(self) -> list[str]:
        """Delete everything that the run created, and restore the number of nodes. Return an error message for each
        leftover.
        """
