"""Repair a stack after Pulumi was killed or interrupted: record in the state what AWS and Kubernetes created, so that
`up` or `destroy` can continue.
"""

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple, Protocol

from infra.inventory.lookups import Client, Remnant
from infra.recovery.backend_locks import find_backend_folder
from infra.recovery.pending_operations import (
    Operation,
    Report,
    State,
    build_settled_state,
    derive_kubernetes_remnant,
    find_remnants,
    list_pending_operations,
    wait_until_settled,
)
from infra.recovery.unrecorded_objects import find_failed_update_periods, is_created_by_pulumi, list_planned_creates

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
    settled_ones = _resolve_pending_operations(pulumi, stack, clients, report)
    adopted = _adopt_unrecorded_objects(pulumi, stack, report)
    return settled_ones._replace(found=[*settled_ones.found, *adopted])


def _resolve_pending_operations(pulumi: Pulumi, stack: str, clients: Callable[[str], Client], report: Report) -> Recovered:
    """Resolve the pending operations in the state."""
    state = _export_state(pulumi, stack)
    begun = list_pending_operations(state)
    creations = [operation for operation in begun if operation.kind == "creating"]
    changes = [operation for operation in begun if operation.kind in ("updating", "deleting")]
    if begun:
        _require_decryption(pulumi, stack)
        report(f"a Pulumi operation was interrupted while it worked on {len(begun)} resources; looking for them in AWS")
    remnants: dict[str, list[Remnant]] = {}
    if creations or changes:
        client = clients(_find_region(state))
        with ThreadPoolExecutor(PARALLEL) as threads:
            waiting = [threads.submit(wait_until_settled, change, client, report) for change in changes]
            looking = {creation.urn: threads.submit(find_remnants, creation, state, client, report) for creation in creations}
            remnants = {urn: look.result() for urn, look in looking.items()}
            for wait in waiting:
                wait.result()
    if not (state.get("deployment") or {}).get("pending_operations"):
        return Recovered([], [], [], [])
    after = build_settled_state(state, remnants)
    _import_state(pulumi, stack, after)
    _refresh_resources(pulumi, stack, [urn for urn, those in remnants.items() if those] + [change.urn for change in changes])
    living, surplus = _collect_ids(_export_state(pulumi, stack))
    return Recovered(
        found=[
            f"{new.name} ({id})" for new in creations for id in _list_remnant_ids(remnants, new.urn) if (new.urn, id) in living
        ],
        missing=[
            new.name
            for new in creations
            if not any((new.urn, id) in living | surplus for id in _list_remnant_ids(remnants, new.urn))
        ],
        surplus=[
            f"{new.name} ({id})" for new in creations for id in _list_remnant_ids(remnants, new.urn) if (new.urn, id) in surplus
        ],
        changed=[change.name for change in changes],
    )


def _adopt_unrecorded_objects(pulumi: Pulumi, stack: str, report: Report) -> list[str]:
    """Add to the state the Kubernetes objects that failed operations created but did not record."""
    state = _export_state(pulumi, stack)
    if not (state.get("deployment") or {}).get("resources"):
        return []
    periods = find_failed_update_periods(json.loads(pulumi("stack", "history", "--json", "--stack", stack)) or ())
    if not periods:
        return []
    _require_decryption(pulumi, stack)
    report("the last update failed or was interrupted; looking for Kubernetes objects that it created")
    begun = list_planned_creates(json.loads(pulumi("preview", "--json", "--stack", stack)), state)
    if not begun:
        return []
    after = _refresh_planned_objects(pulumi, stack, state, begun)
    urns = {operation.urn: operation for operation in begun}
    existing = [entry for entry in after["deployment"]["resources"] if entry["urn"] in urns]
    foreign = [entry for entry in existing if not is_created_by_pulumi(entry.get("outputs") or {}, periods)]
    if foreign:
        remaining = [entry for entry in after["deployment"]["resources"] if entry not in foreign]
        _import_state(pulumi, stack, {**after, "deployment": {**after["deployment"], "resources": remaining}})
    for entry in foreign:
        fix = "delete it, or adopt it with `pulumi import`"
        report(f"{urns[entry['urn']].name} ({entry['id']}) exists, but no failed update of this stack created it; {fix}")
    return [f"{urns[entry['urn']].name} ({entry['id']})" for entry in existing if entry not in foreign]


def _refresh_planned_objects(pulumi: Pulumi, stack: str, state: State, begun: list[Operation]) -> State:
    """Add the planned objects to the state, refresh them, and return the state with those that exist in the cluster."""
    pending = [{"type": operation.kind, "resource": operation.resource} for operation in begun]
    interrupted = {**state, "deployment": {**state["deployment"], "pending_operations": pending}}
    remnants = {operation.urn: [derive_kubernetes_remnant(operation)] for operation in begun}
    _import_state(pulumi, stack, build_settled_state(interrupted, remnants))
    try:
        _refresh_resources(pulumi, stack, list(remnants))
    except BaseException:
        _import_state(pulumi, stack, state)
        raise
    return _export_state(pulumi, stack)


def _import_state(pulumi: Pulumi, stack: str, state: State) -> None:
    pulumi("stack", "import", "--stack", stack, text=json.dumps(state))


def create_client_factory(region: str, **options: Any) -> Client:
    """Return a function that returns the boto3 client for a service. The function creates each client only once, with
    `options`."""
    import boto3.session  # slow to import

    session = boto3.session.Session(region_name=region)
    by_service: dict[str, Any] = {}
    making = Lock()  # boto3 clients are thread-safe, sessions are not

    def get_client(service: str) -> Any:
        with making:
            if service not in by_service:
                by_service[service] = session.client(service, **options)
            return by_service[service]

    return get_client


def _export_state(pulumi: Pulumi, stack: str) -> State:
    state: State = json.loads(pulumi("stack", "export", "--stack", stack))
    return state


def _require_decryption(pulumi: Pulumi, stack: str) -> None:
    """Make Pulumi decrypt the secrets now. Otherwise a wrong passphrase would cause an error only after all waits, when
    Pulumi imports the repaired state."""
    pulumi("stack", "export", "--show-secrets", "--stack", stack)


def _refresh_resources(pulumi: Pulumi, stack: str, urns: list[str]) -> None:
    """Refresh only the resources in `urns`. Users decide themselves when to refresh the rest of the stack."""
    if urns:
        pulumi("refresh", "--yes", "--skip-preview", "--stack", stack, *(part for urn in urns for part in ("--target", urn)))


def _list_remnant_ids(remnants: dict[str, list[Remnant]], urn: str) -> list[str]:
    return [remnant.id for remnant in remnants.get(urn, ())]


def _collect_ids(state: State) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """Return two sets of (URN, ID) pairs: the stack's resources, and the resources that the state keeps only until
    Pulumi deletes them."""
    resources = state["deployment"].get("resources") or ()
    pairs = [((resource["urn"], resource.get("id", "")), bool(resource.get("delete"))) for resource in resources]
    return {pair for pair, delete in pairs if not delete}, {pair for pair, delete in pairs if delete}


def _find_region(state: State) -> str:
    """Return the region of the stack's resources, as recorded for their provider."""
    return next(str(row["inputs"]["region"]) for row in state["deployment"]["resources"] if row["type"] == "pulumi:providers:aws")


def repair_backend(url: str, project: str, stack: str) -> None:
    """Repair a backend in a folder: a killed engine can leave its files truncated: restore the state file from its backup,
    and delete truncated attributes files. Do nothing for other backends."""
    folder = find_backend_folder(url)
    if folder is None:
        return
    state = folder / "stacks" / project / f"{stack.rpartition('/')[2]}.json"
    backup = state.with_name(f"{state.name}.bak")
    # `pulumi stack rm` renames the state file to the backup: a missing file is not a truncated one.
    if state.exists() and not _is_intact(state) and _is_intact(backup):
        shutil.copy2(backup, state)
    # The backend writes an attributes file next to each file, but does not need it to read the file:
    # https://github.com/google/go-cloud/blob/master/blob/fileblob/attrs.go
    for attributes in folder.rglob("*.attrs"):
        if not _is_intact(attributes):
            attributes.unlink(missing_ok=True)


def _is_intact(file: Path) -> bool:
    try:
        return bool(json.loads(file.read_text()))
    except (FileNotFoundError, UnicodeDecodeError, json.JSONDecodeError):
        return False
