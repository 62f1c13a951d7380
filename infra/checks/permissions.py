"""Check of permissions: may the caller do everything that `up` and `destroy` need?"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from infra.checks.model import Answer, no, unknown
from infra.config.messages import all_of
from infra.facts import Facts, FactsError
from infra.facts.clients import Clients, Denied, query
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
        _ = clients.iam  # creating boto3 clients is not thread-safe
        results = _ask(clients, caller.principal_arn, list_needs(settings, facts))
    except Denied as denied:
        return unknown(NAME, f"{caller.arn} may not call {denied}")
    except FactsError as error:
        return unknown(NAME, str(error))
    return judge(caller.principal_arn, results)


def _ask(clients: Clients, principal: str, wanted: Sequence[Need]) -> list[Simulated]:
    def ask(need: Need) -> list[Simulated]:
        return query(clients.region, lambda: simulate(clients, principal, need.actions, need.resource, need.context))

    with ThreadPoolExecutor(len(wanted)) as threads:
        return [result for results in threads.map(ask, wanted) for result in results]


def judge(principal: str, results: Sequence[Simulated]) -> Answer:
    denied = sorted({one.action for one in results if one.decision == "denied"})
    doubtful = sorted({one.action for one in results if one.decision == "unknown"} - set(denied))
    if denied:
        return no(NAME, f"{principal} may not call {all_of(denied)}. Allow it, for example with {POLICIES}.")
    if doubtful:
        keys = sorted({key for one in results if one.decision == "unknown" for key in one.missing_keys})
        return unknown(
            NAME, f"permission for {all_of(doubtful)} depends on {all_of(keys)}, which only the actual request contains"
        )
    return Answer(NAME, "yes")
