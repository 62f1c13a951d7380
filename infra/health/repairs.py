"""State of a node's repair, and whether the node may accept jobs again."""

import re
from dataclasses import replace
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any, Final

from infra.health import faults
from infra.health.annotation import Object, State, TakenOut
from infra.naming import GPU_RESOURCE, TAKEN_OUT_ANNOTATION

VERIFYING: Final = timedelta(seconds=30)
"""How long a repaired node must stay healthy before it accepts jobs. In this time, the device plugin checks the GPUs,
and the agent, which reports every 15 seconds, reports again.
"""


_QUANTITY: Final = re.compile(r"\+?(\d{1,18})(?:\.\d*)?(?:[eE](\d{1,2})|(m|k|[KMGTPE]i|[MGTPE]))?", re.ASCII)
_FACTORS: Final[dict[str, int | Fraction]] = {
    **{"": 1, "m": Fraction(1, 1000), "k": 1000, "Ki": 1 << 10},
    **{letter: 1000**power for power, letter in enumerate("MGTPE", 2)},
    **{f"{letter}i": 1 << 10 * power for power, letter in enumerate("MGTPE", 2)},
}


def parse_quantity(quantity: object) -> int:
    """Return the whole number in a Kubernetes quantity of an extended resource; 0 for other text.

    https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/

    >>> [parse_quantity(text) for text in ("8", 8, "1k", "2e1", "8000m", "8.0", "eight", "-1", None)]
    [8, 8, 1000, 20, 8, 8, 0, 0, 0]
    """
    match = _QUANTITY.fullmatch(str(quantity)) if isinstance(quantity, str | int) else None
    return int(int(match[1]) * _FACTORS[match[3] or ""] * 10 ** int(match[2] or 0)) if match else 0


def find_problem(node: Object, gpus: int, *, is_silent: bool = False) -> str:
    """Return the reason why a node must not accept jobs; empty if the node may accept jobs. `gpus`: number of GPUs
    per node of the pool. `is_silent`: whether the node's kubelet is silent.
    """
    if is_silent:
        return "the kubelet is silent"
    conditions = {condition["type"]: condition for condition in node["status"].get("conditions", ())}
    if conditions.get(faults.READY, {}).get("status") != "True":
        return "the node is not ready"
    for kind in faults.AGENT_CONDITIONS:
        condition = conditions.get(kind, {})
        if condition.get("status") == "False" and faults.decide_repair(kind, condition.get("reason", "")).takes_node_out:
            return f"{kind} is False: {condition.get('reason', '')}"
    usable = parse_quantity(node["status"].get("allocatable", {}).get(GPU_RESOURCE, 0))
    return "" if usable == gpus else f"{usable} of {gpus} GPUs can be used"


def decide_next_state(
    node: Object, out: TakenOut, gpus: int, now: datetime, *, is_busy: bool, is_silent: bool = False
) -> TakenOut | None:
    """Return the node's next state, or the current state if nothing changes; None if the node may accept jobs again.
    `is_busy`: whether jobs still run on the node.
    """
    is_sound = not find_problem(node, gpus, is_silent=is_silent)
    if out.state == "draining":
        if not is_busy:
            return _enter_state(out, "repairing", now)
        return _enter_state(out, "verifying", now) if is_sound and not out.drains else out
    if out.state == "repairing":
        return _enter_state(out, "verifying", now) if is_sound else out
    if not is_sound:
        return _enter_state(out, "repairing", now)
    return None if now - out.since >= VERIFYING + timedelta(seconds=out.ending) else out


def build_state_patch(version: str, out: TakenOut | None) -> dict[str, Any]:
    """Return the merge patch that writes a state; None puts the node back into service."""
    text = out.text() if out is not None else None
    metadata = {"resourceVersion": version, "annotations": {TAKEN_OUT_ANNOTATION: text}}
    return {"metadata": metadata} if out is not None else {"metadata": metadata, "spec": {"unschedulable": None}}


def _enter_state(out: TakenOut, state: State, now: datetime) -> TakenOut:
    return replace(out, state=state, since=now)
