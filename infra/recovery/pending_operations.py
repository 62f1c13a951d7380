"""Pending operations of a killed Pulumi process: their outcome in AWS, and the state that records it.

Pulumi records a creation before it starts it, with the inputs and so with the name or the tags of what AWS is asked for. The
record stays behind; the next run only warns and asks again, which AWS refuses or does a second time.
https://www.pulumi.com/docs/support/troubleshooting/common-issues/interrupted-updates/
"""

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tenacity import RetryCallState, RetryError, Retrying, retry_if_result, stop_after_delay, wait_fixed

from infra.facts.clients import Denied, is_error, query
from infra.recovery.aws_lookups import LOOKS, MISSING, REPEATED, Client, Found, Look

State = dict[str, Any]
"""What `pulumi stack export` prints."""
Report = Callable[[str], None]

MOVING: Final = frozenset({"creating", "deleting", "pending", "pendingacceptance", "updating"})
FAILED: Final = frozenset({"create_failed", "failed", "error"})
GONE: Final = frozenset({"deleted"})
"""AWS still shows it for a while."""
POLL_SECONDS: Final = 1.0
DEADLINE_SECONDS: Final = 3600.0
"""The longest wait of the AWS provider: creating or deleting an EKS node group.
https://github.com/hashicorp/terraform-provider-aws/blob/main/internal/service/eks/node_group.go
"""

KUBERNETES: Final = "kubernetes:"


class Unknown(Exception):
    """What became of an operation cannot be told."""


@dataclass(frozen=True)
class Operation:
    """One that was interrupted."""

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


def operations(state: State) -> list[Operation]:
    """What was interrupted, as the state tells it: of resources that are something outside of Pulumi."""
    deployment = state.get("deployment") or {}
    found = [Operation(one["type"], one["resource"]) for one in deployment.get("pending_operations") or ()]
    theirs = [one for one in found if one.resource.get("custom") and not one.type.startswith("pulumi:")]
    ids = {one["urn"]: one["id"] for one in deployment.get("resources") or () if one.get("id") and not one.get("delete")}
    return [_identified(one, ids.get(one.urn)) if one.kind == "updating" else one for one in theirs]


def _identified(update: Operation, id: str | None) -> Operation:
    """An update is recorded with what is asked for, before the resource that it is of gives it its id:
    https://github.com/pulumi/pulumi/blob/master/pkg/resource/deploy/step.go (UpdateStep.Apply)
    """
    return update if id is None or update.resource.get("id") else Operation(update.kind, {**update.resource, "id": id})


def made(creation: Operation, state: State, client: Client, report: Report) -> list[Found]:
    """What AWS made of a creation and the state does not have; more than one where it was begun more than once.

    Waits while AWS is still at it. Raises Unknown.
    """
    if creation.type.startswith(KUBERNETES):
        return [_object(creation)]
    if creation.type in REPEATED:
        return []
    known = {one["id"] for one in state["deployment"].get("resources") or () if one["type"] == creation.type and one.get("id")}
    return _at_rest(creation, client, report, lambda found: found.id not in known)


def await_rest(change: Operation, client: Client, report: Report) -> None:
    """Wait while AWS is still at an update or a deletion. Raises Unknown."""
    if change.type in LOOKS:
        _at_rest(change, client, report, lambda found: found.id == change.resource.get("id"))


def _at_rest(operation: Operation, client: Client, report: Report, wanted: Callable[[Found], bool]) -> list[Found]:
    look = LOOKS.get(operation.type)
    if look is None:
        raise Unknown(
            f"{operation.name}: what became of this {operation.type} cannot be told; "
            "`pulumi refresh` asks you for its id, or whether to forget it"
        )

    def poll() -> list[Found]:
        return [found for found in _look(operation, look, client) if wanted(found) and found.status.lower() not in GONE]

    def report_once(state: RetryCallState) -> None:
        if state.attempt_number == 1 and state.outcome:
            report(f"AWS is still working on {operation.name} ({_ids(state.outcome.result())}); waiting for it")

    waiting = Retrying(
        wait=wait_fixed(POLL_SECONDS),
        stop=stop_after_delay(DEADLINE_SECONDS),
        retry=retry_if_result(_is_moving),
        before_sleep=report_once,
    )
    try:
        return waiting(poll)
    except RetryError as error:
        ids, minutes = _ids(error.last_attempt.result()), f"{DEADLINE_SECONDS / 60:.0f} minutes"
        raise Unknown(
            f"{operation.name}: AWS is still working on {ids} after {minutes}; "
            "run the command again when the AWS console shows that it is done"
        ) from None


def _is_moving(seen: Iterable[Found]) -> bool:
    return any(found.status.lower() in MOVING for found in seen)


def _ids(seen: Iterable[Found]) -> str:
    return ", ".join(found.id for found in seen)


def _look(operation: Operation, look: Look, client: Client) -> list[Found]:
    def answer() -> list[Found]:
        try:
            return list(look(client, operation.inputs))
        except Exception as error:
            if is_error(error, *MISSING):
                return []
            raise

    try:
        return query("", answer)
    except Denied as denied:
        raise Unknown(f"{operation.name}: what became of it cannot be told without the permission {denied}") from None


def _object(creation: Operation) -> Found:
    """A Kubernetes object is where its inputs say; whether it is there, the refresh finds out."""
    metadata = creation.inputs.get("metadata") or {}
    return Found("/".join(part for part in (metadata.get("namespace"), metadata.get("name")) if part))


def settled(state: State, found: Mapping[str, Iterable[Found]]) -> State:
    """The state with what was found (by URN of the creation) and no operation pending.

    What AWS could not make is marked to be replaced, and what is there beside something that the state knows, to be deleted.
    """
    after = copy.deepcopy(state)
    deployment = after["deployment"]
    resources: list[dict[str, Any]] = deployment.get("resources") or []
    for creation in operations(state):
        for one in found.get(creation.urn, ()) if creation.kind == "creating" else ():
            _put(resources, creation, one)
    deployment["resources"] = resources
    deployment["pending_operations"] = []
    return after


def _put(resources: list[dict[str, Any]], creation: Operation, found: Found) -> None:
    outputs = {**creation.inputs, **creation.resource.get("outputs", {}), "id": found.id}
    new = {**creation.resource, "id": found.id, "outputs": outputs}
    if found.status.lower() in FAILED:
        new["taint"] = True
    places = [index for index, one in enumerate(resources) if one["urn"] == creation.urn and not one.get("delete")]
    if not places:
        resources.append(new)
    elif resources[places[0]].get("pendingReplacement"):  # the old one is deleted already, and only this was left to do
        resources[places[0]] = new
    else:
        resources.append({**new, "delete": True})
