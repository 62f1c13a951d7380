"""After a run of Pulumi that was killed: let the state tell what AWS made of what had begun. Then `up` goes on, `destroy` too."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import Any, NamedTuple, Protocol

from infra.recovery.aws_lookups import Client, Found
from infra.recovery.pending_operations import Report, State, await_rest, made, operations, settled

PARALLEL = 16


class Pulumi(Protocol):
    """Runs `pulumi` with arguments and `text` on its standard input; returns what it printed."""

    def __call__(self, *arguments: str, text: str | None = None) -> str: ...


class Recovered(NamedTuple):
    """What became of what was interrupted, by the names of the resources."""

    found: list[str]
    """They are there, and now the state has them."""
    missing: list[str]
    """Nothing came of them; the next `up` makes them."""
    surplus: list[str]
    """They exist in addition to the resources in the state; the next `up` or `destroy` deletes them."""
    changed: list[str]
    """They were being changed or deleted; the state has them as they are now."""


def recover(pulumi: Pulumi, stack: str, clients: Callable[[str], Client], report: Report) -> Recovered:
    """Settle every interrupted operation of a stack that nobody works on. `clients` gives those of a region.

    Raises interrupted.Unknown where that cannot be done, and facts.FactsError where AWS could not be queried.
    """
    state = _export(pulumi, stack)
    begun = operations(state)
    creations = [one for one in begun if one.kind == "creating"]
    changes = [one for one in begun if one.kind in ("updating", "deleting")]
    if begun:
        report(f"a run was interrupted while it worked on {len(begun)} resources; looking for them in AWS")
    found: dict[str, list[Found]] = {}
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
    pulumi("stack", "import", "--stack", stack, text=json.dumps(after))
    _refresh(pulumi, stack, [urn for urn, those in found.items() if those] + [one.urn for one in changes])
    living, surplus = _ids(_export(pulumi, stack))
    return Recovered(
        found=[f"{one.name} ({id})" for one in creations for id in _of(found, one.urn) if (one.urn, id) in living],
        missing=[one.name for one in creations if not any((one.urn, id) in living | surplus for id in _of(found, one.urn))],
        surplus=[f"{one.name} ({id})" for one in creations for id in _of(found, one.urn) if (one.urn, id) in surplus],
        changed=[one.name for one in changes],
    )


def clients(region: str, **options: Any) -> Client:
    """boto3 clients of one region by service, each made once and with these options."""
    import boto3.session

    session = boto3.session.Session(region_name=region)
    made: dict[str, Any] = {}
    making = Lock()  # a session is for one thread at a time, a client for all

    def client(service: str) -> Any:
        with making:
            if service not in made:
                made[service] = session.client(service, **options)
            return made[service]

    return client


def _export(pulumi: Pulumi, stack: str) -> State:
    state: State = json.loads(pulumi("stack", "export", "--stack", stack))
    return state


def _refresh(pulumi: Pulumi, stack: str, urns: list[str]) -> None:
    """Only these: whatever else changed since is for the user's own refresh."""
    if urns:
        pulumi("refresh", "--yes", "--skip-preview", "--stack", stack, *(part for urn in urns for part in ("--target", urn)))


def _of(found: dict[str, list[Found]], urn: str) -> list[str]:
    return [one.id for one in found.get(urn, ())]


def _ids(state: State) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """URN and id of what the state has, and of what it has only to delete it."""
    resources = state["deployment"].get("resources") or ()
    pairs = [((one["urn"], one.get("id", "")), bool(one.get("delete"))) for one in resources]
    return {pair for pair, delete in pairs if not delete}, {pair for pair, delete in pairs if delete}


def _region(state: State) -> str:
    """Where the stack's resources are: their provider knows."""
    return next(str(one["inputs"]["region"]) for one in state["deployment"]["resources"] if one["type"] == "pulumi:providers:aws")
