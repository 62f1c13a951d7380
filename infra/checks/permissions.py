"""Check of permissions: whether the caller may do everything that `up` and `destroy` need."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from infra.checks.model import Answer, build_negative_answer, build_unknown_answer
from infra.config.messages import join_with_and
from infra.facts.clients import Clients, Denied, query
from infra.facts.model import Facts, FactsError
from infra.facts.simulation import Simulated, simulate_actions
from infra.inventory.permissions import Need, list_needed_permissions
from infra.settings.stack import Settings

NAME: Final = "permissions"
OPERATION: Final = "iam:SimulatePrincipalPolicy"
POLICIES: Final = "read.json, up.json and destroy.json in docs/iam"


def check_permissions(settings: Settings, facts: Facts) -> Answer:
    """Check, with parallel IAM queries, whether the caller may perform every action that this stack needs."""
    caller = facts.caller
    if caller.is_root:
        return Answer(NAME, "yes", ("the root user has all permissions",))
    if caller.principal_arn is None:
        return build_unknown_answer(NAME, f"the user or role behind {caller.arn} could not be found")
    try:
        clients = query(facts.region, lambda: Clients(facts.region))
        results = _simulate_needs(clients, caller.principal_arn, list_needed_permissions(settings, facts))
    except Denied as denied:
        return build_unknown_answer(NAME, f"{caller.arn} may not call {denied}")
    except FactsError as error:
        return build_unknown_answer(NAME, str(error))
    return evaluate_results(caller.principal_arn, results)


def _simulate_needs(clients: Clients, principal: str, needs: Sequence[Need]) -> list[Simulated]:
    def simulate_need(need: Need) -> list[Simulated]:
        return query(clients.region, lambda: simulate_actions(clients, principal, need.actions, need.resource, need.context))

    with ThreadPoolExecutor(len(needs)) as threads:
        return [result for results in threads.map(simulate_need, needs) for result in results]


def evaluate_results(principal: str, results: Sequence[Simulated]) -> Answer:
    denied = sorted({result.action for result in results if result.decision == "denied"})
    doubtful = sorted({result.action for result in results if result.decision == "unknown"} - set(denied))
    if denied:
        return build_negative_answer(
            NAME, f"{principal} may not call {join_with_and(denied)}. Allow it, for example with {POLICIES}."
        )
    if doubtful:
        keys = sorted({key for result in results if result.decision == "unknown" for key in result.missing_keys})
        return build_unknown_answer(
            NAME,
            f"permission for {join_with_and(doubtful)} depends on {join_with_and(keys)}, which only the actual request contains",
        )
    return Answer(NAME, "yes")
