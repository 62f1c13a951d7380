"""Types of the cases, and helpers that build facts for them."""

from dataclasses import replace
from typing import Any

from infra.config.problems import Problem
from infra.facts.model import CapacityReservation, Existing, ExistingPool, OwnVpc
from tests.pure.world import (
    ACCOUNT,
    REGION,
    RESERVATION,
    VPC,
    ZONES,
    instance_type,
)

OfflineCase = tuple[dict[str, Any], list[dict[str, Any]], str]
"""Sections of the stack file, its pools, and the expected problem."""
FactsCase = tuple[dict[str, Any], list[dict[str, Any]], dict[str, Any], list[str]]
"""Sections of the stack file, its pools, the facts that differ from the default facts, and the expected problems."""

ODCR = {"kind": "targeted-odcr", "reservationId": RESERVATION}
BLOCK = {"kind": "capacity-block", "reservationId": RESERVATION}
NO_SPOT = replace(instance_type("p5.48xlarge"), usage_classes=frozenset({"on-demand", "capacity-block"}))
WHERE = f"{REGION} of account {ACCOUNT}"
A, B, C, D = ZONES


def format_problem(problem: Problem) -> str:
    """Return a problem in the form that the cases use: warnings begin with "warning: "."""
    return str(problem) if problem.is_error else f"warning: {problem}"


def make_reservation_facts(**more: Any) -> dict[str, Any]:
    """Return facts with a reservation that fits `pool(instance_type="p5.48xlarge")`."""
    reservation = CapacityReservation(RESERVATION, "default", "active", "p5.48xlarge", B, 4, 4)
    return {"reservations": {RESERVATION: replace(reservation, **more)}}


def make_existing_facts(version: str | None = None, zones: tuple[str, ...] = (), **pools: ExistingPool) -> dict[str, Any]:
    return {"existing": Existing(version, zones, pools)}


def make_live_cluster_facts(vpc_id: str = VPC, *, own: bool = True, zones: tuple[str, ...] = (A, B)) -> dict[str, Any]:
    """Return facts with a running cluster in a VPC."""
    own_vpc = OwnVpc(vpc_id, "10.0.0.0/16") if own else None
    existing = Existing("1.35", zones if own else (), cluster_vpc_id=vpc_id, cluster_zones=zones, own_vpc=own_vpc)
    return {"existing": existing}
