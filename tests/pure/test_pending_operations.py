"""Repair of a stack's state after a killed Pulumi operation, based on what exists in AWS."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from infra.inventory.lookups import Inputs, Remnant
from infra.inventory.table import TABLE
from infra.recovery import pending_operations
from infra.recovery.pending_operations import Operation, Unknown, await_rest, find_remnants, operations, settled
from infra.recovery.recover_stack import Recovered, recover

VPC, GROUP = "aws:ec2/vpc:Vpc", "aws:eks/nodeGroup:NodeGroup"
PROVIDER = {"urn": "urn:p", "type": "pulumi:providers:aws", "id": "1", "custom": True, "inputs": {"region": "eu-west-1"}}


def resource(token: str = VPC, name: str = "net", **more: Any) -> dict[str, Any]:
    urn = f"urn:pulumi:dev::gpumpi::{token}::{name}"
    return {"urn": urn, "type": token, "custom": True, "inputs": {"tags": {"Name": name}, "__defaults": []}, **more}


def state(*resources: dict[str, Any], **pending: dict[str, Any]) -> dict[str, Any]:
    """Return a stack's state. `pending` maps each kind of interrupted operation to its resource."""
    begun = [{"type": kind, "resource": resource} for kind, resource in pending.items()]
    return {"version": 3, "deployment": {"resources": [PROVIDER, *resources], "pending_operations": begun}}


def after(before: dict[str, Any], *remnants: Remnant) -> list[dict[str, Any]]:
    """Repair a state and return its resources, without the provider."""
    deployment = settled(before, {resource()["urn"]: remnants, resource(GROUP)["urn"]: remnants})["deployment"]
    assert deployment["pending_operations"] == []
    return list(deployment["resources"][1:])


@pytest.fixture
def in_aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[Remnant]]]:
    """Yield the list of results that successive lookups of VPCs and node groups return; the last result repeats."""
    views: list[list[Remnant]] = [[]]

    def look(client: Any, inputs: Inputs) -> Iterator[Remnant]:
        yield from views.pop(0) if len(views) > 1 else views[0]

    looks = {token: replace(TABLE[token], lookup=look) for token in (VPC, GROUP)}
    monkeypatch.setattr(pending_operations, "TABLE", {**TABLE, **looks})
    monkeypatch.setattr(pending_operations, "POLL_SECONDS", 0)
    yield views


def no_client(service: str) -> Any:
    raise AssertionError(f"{service} was queried")


def test_operations_on_pulumis_own_resources_are_not_interrupted() -> None:
    component = {"urn": "urn:c", "type": "gpumpi:infra:Network", "custom": False}
    pending = [{"type": "creating", "resource": item} for item in (component, PROVIDER, resource())]
    assert [operation.type for operation in operations({"deployment": {"pending_operations": pending}})] == [VPC]
    assert operations({"deployment": {}}) == operations({"deployment": None}) == []


def test_an_update_is_of_the_resource_that_the_state_has() -> None:
    """The record of the interrupted update has no resource ID."""
    (update,) = operations(state(resource(id="vpc-0", delete=True), resource(id="vpc-1"), updating=resource()))
    assert update.resource["id"] == "vpc-1"


def test_recovered_resources_enter_the_state_with_their_inputs() -> None:
    (recorded,) = after(state(creating=resource(outputs={"arn": "a"})), Remnant("vpc-1"))
    assert recorded["id"] == "vpc-1"
    assert recorded["outputs"] == {"tags": {"Name": "net"}, "arn": "a", "id": "vpc-1"}
    assert "taint" not in recorded and "delete" not in recorded


def test_nothing_found_nothing_kept() -> None:
    assert after(state(creating=resource())) == []


def test_resources_that_aws_failed_to_create_are_replaced() -> None:
    (recorded,) = after(state(creating=resource(GROUP)), Remnant("cluster:group", "CREATE_FAILED"))
    assert recorded["taint"] is True


def test_what_is_there_twice_is_deleted_once() -> None:
    first, second = after(state(creating=resource()), Remnant("vpc-1"), Remnant("vpc-2"))
    assert (first["id"], first.get("delete"), second["id"], second["delete"]) == ("vpc-1", None, "vpc-2", True)


def test_a_replacement_beside_the_one_in_use_is_deleted() -> None:
    old, new = after(state(resource(id="vpc-0"), creating=resource()), Remnant("vpc-1"))
    assert (old["id"], old.get("delete"), new["id"], new["delete"]) == ("vpc-0", None, "vpc-1", True)


def test_a_replacement_whose_old_one_is_deleted_takes_its_place() -> None:
    before = state(resource(id="vpc-0", pendingReplacement=True), resource(name="later", id="vpc-9"), creating=resource())
    new, later = after(before, Remnant("vpc-1"))
    assert (new["id"], new.get("pendingReplacement"), later["id"]) == ("vpc-1", None, "vpc-9")


def test_an_interrupted_update_changes_no_resource() -> None:
    assert after(state(resource(id="vpc-1"), updating=resource(id="vpc-1")), Remnant("vpc-1")) == [resource(id="vpc-1")]


def test_lookups_skip_resources_that_the_state_has(in_aws: list[list[Remnant]]) -> None:
    in_aws[:] = [[Remnant("vpc-1"), Remnant("vpc-2"), Remnant("vpc-3", "deleted")]]
    before = state(resource(name="other", id="vpc-1"))
    assert find_remnants(Operation("creating", resource()), before, no_client, print) == [Remnant("vpc-2")]


def test_recover_waits_for_creations_in_progress_and_reports_once(in_aws: list[list[Remnant]]) -> None:
    creating, reports = Remnant("c:g", "CREATING"), list[str]()
    in_aws[:] = [[creating], [creating], [Remnant("c:g", "ACTIVE")]]
    assert find_remnants(Operation("creating", resource(GROUP)), state(), no_client, reports.append) == [Remnant("c:g", "ACTIVE")]
    assert reports == ["AWS is still working on net (c:g); waiting for it"]


def test_recover_waits_only_for_changes_of_its_own_resource(in_aws: list[list[Remnant]]) -> None:
    own, foreign = Remnant("c:g", "UPDATING"), Remnant("c:h", "UPDATING")
    in_aws[:] = [[own, foreign], [foreign]]
    reports: list[str] = []
    await_rest(Operation("updating", resource(GROUP, id="c:g")), no_client, reports.append)
    assert reports == ["AWS is still working on net (c:g); waiting for it"]


def test_waiting_ends_at_a_deadline(in_aws: list[list[Remnant]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_operations, "DEADLINE_SECONDS", 0)
    in_aws[:] = [[Remnant("c:g", "CREATING")]]
    with pytest.raises(Unknown, match="net: AWS is still working on c:g after 0 minutes; run the command again when"):
        find_remnants(Operation("creating", resource(GROUP)), state(), no_client, print)


def test_a_kubernetes_object_is_where_its_inputs_say() -> None:
    inputs = {"metadata": {"namespace": "jobs", "name": "one"}}
    queue = Operation("creating", resource("kubernetes:core/v1:ConfigMap", inputs=inputs))
    assert find_remnants(queue, state(), no_client, print) == [Remnant("jobs/one")]


def test_a_type_that_cannot_be_looked_for_is_reported_with_a_fix() -> None:
    with pytest.raises(Unknown, match="net: the outcome for this aws:sqs/queue:Queue cannot be determined; run `pulumi"):
        find_remnants(Operation("creating", resource("aws:sqs/queue:Queue")), state(), no_client, print)


def test_a_permission_that_is_missing_is_named() -> None:
    def denied(service: str) -> Any:
        raise ClientError({"Error": {"Code": "UnauthorizedOperation", "Message": "No."}}, "DescribeVpcs")

    with pytest.raises(Unknown, match="cannot be determined without the permission DescribeVpcs"):
        find_remnants(Operation("creating", resource()), state(), denied, print)


def test_a_state_in_which_nothing_was_interrupted_is_not_touched() -> None:
    def pulumi(*arguments: str, text: str | None = None) -> str:
        assert arguments == ("stack", "export", "--stack", "dev"), "nothing else is called"
        return '{"version": 3, "deployment": {}}'

    assert recover(pulumi, "dev", no_client, print) == Recovered([], [], [], [])
