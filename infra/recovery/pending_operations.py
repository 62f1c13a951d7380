"""Pending operations of a killed Pulumi process: find their outcome in AWS and record it in the state.

Pulumi records a create before it starts. The record contains the inputs, including the name or tags of the AWS
resource. After an interruption the record stays in the state. The next Pulumi operation only prints a warning and
repeats the create. AWS then either rejects the create or performs it a second time.
https://www.pulumi.com/docs/support/troubleshooting/common-issues/interrupted-updates/
"""

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tenacity import RetryCallState, RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

from infra.facts.clients import Denied, is_error, query
from infra.inventory.lookups import MISSING, Client, Look, Remnant
from infra.inventory.table import KUBERNETES, TABLE

State = dict[str, Any]
"""Output of `pulumi stack export`."""
Report = Callable[[str], None]

MOVING: Final = frozenset({"creating", "deleting", "pending", "pendingacceptance", "updating"})
FAILED: Final = frozenset({"create_failed", "failed", "error"})
GONE: Final = frozenset({"deleted"})
"""States of deleted resources, which AWS still lists for a while."""
POLL_SECONDS: Final = 1.0
DEADLINE_SECONDS: Final = 3600.0
"""Longest timeout of the AWS provider, for creating or deleting an EKS node group.
https://github.com/hashicorp/terraform-provider-aws/blob/main/internal/service/eks/node_group.go
"""


class Unknown(Exception):
    """The outcome of an operation cannot be determined."""


@dataclass(frozen=True)
class Operation:
    """An interrupted operation."""

    kind: str
    """creating, updating, deleting, ..."""
    resource: Mapping[str, Any]

    @property
    def urn(self) -> str:
        return str(self.resource["urn"])

    @property
    def type(self) -> str:
        return str(self.resource["type"])

    @property
    def name(self) -> str:
        return self.urn.rpartition("::")[2]

    @property
    def inputs(self) -> dict[str, Any]:
        return {key: value for key, value in self.resource.get("inputs", {}).items() if not key.startswith("__")}


def list_pending_operations(state: State) -> list[Operation]:
    """Return the interrupted operations in the state, except those on Pulumi's own resources (components and
    providers)."""
    deployment = state.get("deployment") or {}
    pending = [Operation(entry["type"], entry["resource"]) for entry in deployment.get("pending_operations") or ()]
    theirs = [step for step in pending if step.resource.get("custom") and not step.type.startswith("pulumi:")]
    ids = {row["urn"]: row["id"] for row in deployment.get("resources") or () if row.get("id") and not row.get("delete")}
    return [_add_resource_id(step, ids.get(step.urn)) if step.kind == "updating" else step for step in theirs]


def _add_resource_id(update: Operation, id: str | None) -> Operation:
    """Add the resource's ID to the record of an update. Pulumi records the update before it copies the ID from the old resource:
    https://github.com/pulumi/pulumi/blob/master/pkg/resource/deploy/step.go (UpdateStep.Apply)
    """
    return update if id is None or update.resource.get("id") else Operation(update.kind, {**update.resource, "id": id})


def find_remnants(creation: Operation, state: State, client: Client, report: Report) -> list[Remnant]:
    """Return the resources that an interrupted create left in AWS and that the state lacks. There are several
    resources if the create was started several times.

    Wait while AWS is still working on these resources. Raise Unknown if the outcome cannot be determined.
    """
    if creation.type.startswith(KUBERNETES):
        return [derive_kubernetes_remnant(creation)]
    if creation.type in TABLE and TABLE[creation.type].lookup is None:
        return []
    ids = {row["id"] for row in state["deployment"].get("resources") or () if row["type"] == creation.type and row.get("id")}
    return _poll_until_settled(creation, client, report, lambda remnant: remnant.id not in ids)


def wait_until_settled(change: Operation, client: Client, report: Report) -> None:
    """Wait while AWS is still working on an update or a deletion. Raise Unknown if the outcome cannot be determined."""
    if change.type in TABLE and TABLE[change.type].lookup is not None:
        _poll_until_settled(change, client, report, lambda remnant: remnant.id == change.resource.get("id"))


def _poll_until_settled(
    operation: Operation, client: Client, report: Report, matches: Callable[[Remnant], bool]
) -> list[Remnant]:
    look = TABLE[operation.type].lookup if operation.type in TABLE else None
    if look is None:
        raise Unknown(
            f"{operation.name}: the outcome for this {operation.type} cannot be determined; "
            "run `pulumi refresh`, which asks whether to import the resource by its ID or to forget it"
        )

    def find_matching_remnants() -> list[Remnant]:
        return [
            remnant
            for remnant in _query_remnants(operation, look, client)
            if matches(remnant) and remnant.status.lower() not in GONE
        ]

    def report_first_wait(state: RetryCallState) -> None:
        if state.attempt_number == 1 and state.outcome:
            report(f"AWS is still working on {operation.name} ({_format_ids(state.outcome.result())}); waiting for it")

    waiting = Retrying(
        wait=wait_fixed(POLL_SECONDS),
        stop=stop_after_delay(DEADLINE_SECONDS),
        retry=retry_if_result(_has_transitional_status),
        before_sleep=report_first_wait,
    )
    try:
        return waiting(find_matching_remnants)
    except RetryError as error:
        ids, minutes = _format_ids(error.last_attempt.result()), f"{DEADLINE_SECONDS / 60:.0f} minutes"
        raise Unknown(
            f"{operation.name}: AWS is still working on {ids} after {minutes}; "
            "run the command again when the AWS console shows that the operation is complete"
        ) from None


def _has_transitional_status(remnants: Iterable[Remnant]) -> bool:
    return any(remnant.status.lower() in MOVING for remnant in remnants)


def _format_ids(remnants: Iterable[Remnant]) -> str:
    return ", ".join(remnant.id for remnant in remnants)


def _query_remnants(operation: Operation, look: Look, client: Client) -> list[Remnant]:
    def run_lookup() -> list[Remnant]:
        try:
            return list(look(client, operation.inputs))
        except Exception as error:
            if is_error(error, *MISSING):
                return []
            raise

    try:
        return query("", run_lookup)
    except Denied as denied:
        raise Unknown(f"{operation.name}: the outcome cannot be determined without the permission {denied}") from None


def derive_kubernetes_remnant(creation: Operation) -> Remnant:
    """Derive the ID of a Kubernetes object from its inputs. A later refresh determines whether the object exists."""
    metadata = creation.inputs.get("metadata") or {}
    return Remnant("/".join(part for part in (metadata.get("namespace"), metadata.get("name")) if part))


def build_settled_state(state: State, remnants: Mapping[str, Iterable[Remnant]]) -> State:
    """Return the state without pending operations and with the resources in `remnants` (URN of the create -> resources).

    Resources that AWS failed to create are marked for replacement, and duplicates of a resource in the state are marked
    for deletion.
    """
    after = copy.deepcopy(state)
    deployment = after["deployment"]
    resources: list[dict[str, Any]] = deployment.get("resources") or []
    for creation in list_pending_operations(state):
        for remnant in remnants.get(creation.urn, ()) if creation.kind == "creating" else ():
            _add_remnant(resources, creation, remnant)
    deployment["resources"] = resources
    deployment["pending_operations"] = []
    return after


def _add_remnant(resources: list[dict[str, Any]], creation: Operation, remnant: Remnant) -> None:
    outputs = {**creation.inputs, **creation.resource.get("outputs", {}), "id": remnant.id}
    new = {**creation.resource, "id": remnant.id, "outputs": outputs}
    if remnant.status.lower() in FAILED:
        new["taint"] = True
    places = [index for index, entry in enumerate(resources) if entry["urn"] == creation.urn and not entry.get("delete")]
    if not places:
        resources.append(new)
    elif resources[places[0]].get("pendingReplacement"):  # the old resource was deleted, but the create was interrupted
        resources[places[0]] = new
    else:
        resources.append({**new, "delete": True})
