"""Check with SimulatePrincipalPolicy whether IAM would allow actions. The simulation evaluates policies and executes
nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from infra.facts.clients import Clients

Decision = Literal["allowed", "denied", "unknown"]
PAGE = 1000


@dataclass(frozen=True)
class Simulated:
    """IAM's simulated decision about one action."""

    action: str
    decision: Decision
    missing_keys: tuple[str, ...] = ()
    """Condition keys that the policies use, but that have a value only in the real request."""


def simulate_actions(
    clients: Clients, principal: str, actions: Sequence[str], resource: str, context: Mapping[str, str]
) -> list[Simulated]:
    """Simulate actions on one resource. If condition keys are missing, a denial counts as `unknown`."""
    entries = [{"ContextKeyName": key, "ContextKeyValues": [value], "ContextKeyType": "string"} for key, value in context.items()]
    pages = clients.iam.get_paginator("simulate_principal_policy").paginate(
        PolicySourceArn=principal, ActionNames=list(actions), ResourceArns=[resource], ContextEntries=entries, MaxItems=PAGE
    )
    return [_convert_result(result) for page in pages for result in page["EvaluationResults"]]


def _convert_result(result: Mapping[str, Any]) -> Simulated:
    """Read one result. Decisions per ARN are in `ResourceSpecificResults`; the other results are about ARN templates."""
    action: str = result["EvalActionName"]
    specific = result.get("ResourceSpecificResults") or [result]
    missing = tuple(dict.fromkeys(key for entry in (result, *specific) for key in entry.get("MissingContextValues", ())))
    decisions = {entry.get("EvalResourceDecision") or entry.get("EvalDecision") for entry in specific}
    if decisions == {"allowed"}:
        return Simulated(action, "allowed")
    refused = "explicitDeny" in decisions or not missing
    return Simulated(action, "denied" if refused else "unknown", missing)
