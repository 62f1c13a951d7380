"""What `eks` and `ec2` provide to the verb: the rows of a target, their cost, and how to clean up."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from cli.acceptance.checklist import Check
from cli.acceptance.cost import Cost
from cli.acceptance.report import LeftOut
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
    """What a run will do."""

    checks: Sequence[Check]
    cost: Cost
    left_out: Sequence[LeftOut] = field(default=())


class Target(Protocol):
    """A running stack."""

    kind: str
    cluster: str
    region: str

    def foreign(self) -> list[str]:
        """Return, as text, what runs on the cluster and was not started by acceptance."""

    def emulated(self) -> Mapping[str, str]:
        """Return what the nodes declare about emulated devices."""

    def plan(self) -> Plan:
        """Return the rows in order, and their cost. Raises CommandError."""

    def clean(self) -> list[str]:
        """Delete what the run created and restore the scale. Return what is left, as sentences."""
