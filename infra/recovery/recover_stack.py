"""Repair a stack after Pulumi was killed or interrupted: record in the state what AWS and Kubernetes created, so that
`up` or `destroy` can continue.
"""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any, NamedTuple, Protocol

from infra.inventory.lookups import Client, Remnant
from infra.recovery.pending_operations import (
    Operation,
    Report,
    State,
    await_rest,
    identified,
    made,
    operations,
    settled,
)
from infra.recovery.unrecorded_objects import is_ours, planned, unfinished

PARALLEL = 16


class Pulumi(Protocol):
    """Runs `pulumi` with these arguments and `text` on standard input; returns its output."""

    def __call__(self, *arguments: str, text: str | None = None) -> str: ...


class Recovered(NamedTuple):
    """Outcome of the interrupted operations, as resource names."""

    found: list[str]
    """Resources that exist and are now in the state."""
    missing: list[str]
    """Resources that do not exist; the next `up` creates them."""
    surplus: list[str]
    """Resources that exist in addition to those in the state; the next `up` or `destroy` deletes them."""
    changed: list[str]
    """Resources that were being changed or deleted; the state now matches AWS."""


def recover(pulumi: Pulumi, stack: str, clients: Callable[[str], Client], report: Report) -> Recovered:
    """Resolve every interrupted operation of a stack. No other Pulumi operation may be running on the stack. `clients`
    takes a region and returns a function that returns boto3 clients.

    Raises pending_operations.Unknown if an outcome cannot be determined, and FactsError if AWS could not be queried.
    """
    settled_ones = _settle(pulumi, stack, clients, report)
    adopted = _adopt(pulumi, stack, report)
    return settled_ones._replace(found=[*settled_ones.found, *adopted])


def _settle(pulumi: Pulumi, stack: str, clients: Callable[[str], Client], report: Report) -> Recovered:
    """Resolve the pending operations in the state."""
    state = _export(pulumi, stack)
    begun = operations(state)
    creations = [one for one in begun if one.kind == "creating"]
    changes = [one for one in begun if one.kind in ("updating", "deleting")]
    if begun:
        _must_decrypt(pulumi, stack)
        report(f"a Pulumi operation was interrupted while it worked on {len(begun)} resources; looking for them in AWS")
    found: dict[str, list[Remnant]] = {}
    if creations or changes:
        client = clients(_region(state))
        with ThreadPoolExecutor(PARALLEL) as threads:
            waiting = [threads.submit(await_rest, one, client, report) for one in changes]
            looking = {one.urn: threads.submit(made, one, state, client, report) for one in creations}
            found = {urn: look.result() for urn, look in looking.items()}
            for wait in waiting:
                wait.result()
    if not (state.get("deployment") or {}).get("pending_operations"):
        return Recovered([], [], [], [])
    after = settled(state, found)
    _import(pulumi, stack, after)
    _refresh(pulumi, stack, [urn for urn, those in found.items() if those] + [one.urn for one in changes])
    living, surplus = _ids(_export(pulumi, stack))
    return Recovered(
        found=[f"{one.name} ({id})" for one in creations for id in _of(found, one.urn) if (one.urn, id) in living],
        missing=[one.name for one in creations if not any((one.urn, id) in living | surplus for id in _of(found, one.urn))],
        surplus=[f"{one.name} ({id})" for one in creations for id in _of(found, one.urn) if (one.urn, id) in surplus],
        changed=[one.name for one in changes],
    )


def _adopt(pulumi: Pulumi, stack: str, report: Report) -> list[str]:
    """Add to the state the Kubernetes objects that failed operations created but did not record."""
    state = _export(pulumi, stack)
    if not (state.get("deployment") or {}).get("resources"):
        return []
    periods = unfinished(json.loads(pulumi("stack", "history", "--json", "--stack", stack)) or ())
    if not periods:
        return []
    _must_decrypt(pulumi, stack)
    report("the last update failed or was interrupted; looking for Kubernetes objects that it created")
    begun = planned(json.loads(pulumi("preview", "--json", "--stack", stack)), state)
    if not begun:
        return []
    after = _read(pulumi, stack, state, begun)
    urns = {one.urn: one for one in begun}
    seen = [one for one in after["deployment"]["resources"] if one["urn"] in urns]
    foreign = [one for one in seen if not is_ours(one.get("outputs") or {}, periods)]
    if foreign:
        others = [one for one in after["deployment"]["resources"] if one not in foreign]
        _import(pulumi, stack, {**after, "deployment": {**after["deployment"], "resources": others}})
    for one in foreign:
        fix = "delete it, or adopt it with `pulumi import`"
        report(f"{urns[one['urn']].name} ({one['id']}) exists, but no failed update of this stack created it; {fix}")
    return [f"{urns[one['urn']].name} ({one['id']})" for one in seen if one not in foreign]


def _read(pulumi: Pulumi, stack: str, state: State, begun: list[Operation]) -> State:
    """Add the planned objects to the state, refresh them, and return the state with those that exist in the cluster."""
    pending = [{"type": one.kind, "resource": one.resource} for one in begun]
    interrupted = {**state, "deployment": {**state["deployment"], "pending_operations": pending}}
    found = {one.urn: [identified(one)] for one in begun}
    _import(pulumi, stack, settled(interrupted, found))
    try:
        _refresh(pulumi, stack, list(found))
    except BaseException:
        _import(pulumi, stack, state)
        raise
    return _export(pulumi, stack)


def _import(pulumi: Pulumi, stack: str, state: State) -> None:
    pulumi("stack", "import", "--stack", stack, text=json.dumps(state))


def clients(region: str, **options: Any) -> Client:
    """Return a function that returns the boto3 client for a service. The function creates each client only once, with
    `options`."""
    import boto3.session  # slow to import

    session = boto3.session.Session(region_name=region)
    made: dict[str, Any] = {}
    making = Lock()  # boto3 clients are thread-safe, sessions are not

    def client(service: str) -> Any:
        with making:
            if service not in made:
                made[service] = session.client(service, **options)
            return made[service]

    return client


def _export(pulumi: Pulumi, stack: str) -> State:
    state: State = json.loads(pulumi("stack", "export", "--stack", stack))
    return state


def _must_decrypt(pulumi: Pulumi, stack: str) -> None:
    """Make Pulumi decrypt the secrets now. Otherwise a wrong passphrase would cause an error only after all waits, when
    Pulumi imports the repaired state."""
    pulumi("stack", "export", "--show-secrets", "--stack", stack)


def _refresh(pulumi: Pulumi, stack: str, urns: list[str]) -> None:
    """Refresh only the resources in `urns`. Users decide themselves when to refresh the rest of the stack."""
    if urns:
        pulumi("refresh", "--yes", "--skip-preview", "--stack", stack, *(part for urn in urns for part in ("--target", urn)))


def _of(found: dict[str, list[Remnant]], urn: str) -> list[str]:
    return [one.id for one in found.get(urn, ())]


def _ids(state: State) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """Return two sets of (URN, ID) pairs: the stack's resources, and the resources that the state keeps only until
    Pulumi deletes them."""
    resources = state["deployment"].get("resources") or ()
    pairs = [((one["urn"], one.get("id", "")), bool(one.get("delete"))) for one in resources]
    return {pair for pair, delete in pairs if not delete}, {pair for pair, delete in pairs if delete}


def _region(state: State) -> str:
    """Return the region of the stack's resources, as recorded for their provider."""
    return next(str(one["inputs"]["region"]) for one in state["deployment"]["resources"] if one["type"] == "pulumi:providers:aws")
