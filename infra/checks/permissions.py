"""Check of permissions: may the caller do everything that `up` and `destroy` need?"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from infra.checks.model import Answer, no, unknown
from infra.config.messages import all_of
from infra.facts.clients import Clients, Denied, query
from infra.facts.model import Facts, FactsError
from infra.facts.simulation import Simulated, simulate
from infra.inventory.permissions import Need, list_needs
from infra.settings.stack import Settings

NAME: Final = "permissions"
OPERATION: Final = "iam:SimulatePrincipalPolicy"
POLICIES: Final = "read.json, up.json and destroy.json in docs/iam"


def answer(settings: Settings, facts: Facts) -> Answer:
    """Check, with parallel IAM queries, whether the caller may perform every action that this stack needs."""
    caller = facts.caller
    if caller.is_root:
        return Answer(NAME, "yes", ("the root user has all permissions",))
    if caller.principal_arn is None:
        return unknown(NAME, f"the user or role behind {caller.arn} could not be found")
    try:
        clients = query(facts.region, lambda: Clients(facts.region))
        results = _ask(clients, caller.principal_arn, list_needs(settings, facts))
    except Denied as denied:
        return unknown(NAME, f"{caller.arn} may not call {denied}")
    except FactsError as error:
        return unknown(NAME, str(error))
    return judge(caller.principal_arn, results)


def _ask(clients: Clients, principal: str, needs: Sequence[Need]) -> list[Simulated]:
    def ask(need: Need) -> list[Simulated]:
        return query(clients.region, lambda: simulate(clients, principal, need.actions, need.resource, need.context))

    with ThreadPoolExecutor(len(needs)) as threads:
        return [result for results in threads.map(ask, needs) for result in results]


def judge(principal: str, results: Sequence[Simulated]) -> Answer:
    denied = sorted({result.action for result in results if result.decision == "denied"})
    doubtful = sorted({result.action for result in results if result.decision == "unknown"} - set(denied))
    if denied:
        return no(NAME, f"{principal} may not call {all_of(denied)}. Allow it, for example with {POLICIES}.")
    if doubtful:
        keys = sorted({key for result in results if result.decision == "unknown" for key in result.missing_keys})
        return unknown(
            NAME, f"permission for {all_of(doubtful)} depends on {all_of(keys)}, which only the actual request contains"
        )
    return Answer(NAME, "yes")
