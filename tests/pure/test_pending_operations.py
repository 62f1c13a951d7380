"""Repair of a stack's state after a killed Pulumi operation, based on what exists in AWS."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ClientError

from infra.inventory.lookups import Inputs, Remnant
from infra.inventory.table import TABLE
from infra.recovery import pending_operations
from infra.recovery.pending_operations import (
    Operation,
    Unknown,
    build_settled_state,
    find_remnants,
    list_pending_operations,
    wait_until_settled,
)
from infra.recovery.recover_stack import Recovered, recover

VPC, GROUP = "aws:ec2/vpc:Vpc", "aws:eks/nodeGroup:NodeGroup"
PROVIDER = {"urn": "urn:p", "type": "pulumi:providers:aws", "id": "1", "custom": True, "inputs": {"region": "eu-west-1"}}


def make_resource(token: str = VPC, name: str = "net", **more: Any) -> dict[str, Any]:
    urn = f"urn:pulumi:dev::gpumpi::{token}::{name}"
    return {"urn": urn, "type": token, "custom": True, "inputs": {"tags": {"Name": name}, "__defaults": []}, **more}


def make_state(*resources: dict[str, Any], **pending: dict[str, Any]) -> dict[str, Any]:
    """Return a stack's state. `pending` maps each kind of interrupted operation to its resource."""
    begun = [{"type": kind, "resource": resource} for kind, resource in pending.items()]
    return {"version": 3, "deployment": {"resources": [PROVIDER, *resources], "pending_operations": begun}}


def repair_state(before: dict[str, Any], *remnants: Remnant) -> list[dict[str, Any]]:
    """Repair a state and return its resources, without the provider."""
    deployment = build_settled_state(before, {make_resource()["urn"]: remnants, make_resource(GROUP)["urn"]: remnants})[
        "deployment"
    ]
    assert deployment["pending_operations"] == []
    return list(deployment["resources"][1:])


@pytest.fixture
def aws_lookups(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[Remnant]]]:
    """Yield the list of results that successive lookups of VPCs and node groups return; the last result repeats."""
    views: list[list[Remnant]] = [[]]

    def yield_remnants(client: Any, inputs: Inputs) -> Iterator[Remnant]:
        yield from views.pop(0) if len(views) > 1 else views[0]

    looks = {token: replace(TABLE[token], lookup=yield_remnants) for token in (VPC, GROUP)}
    monkeypatch.setattr(pending_operations, "TABLE", {**TABLE, **looks})
    monkeypatch.setattr(pending_operations, "POLL_SECONDS", 0)
    yield views


def forbid_client(service: str) -> Any:
    raise AssertionError(f"{service} was queried")


def test_operations_on_components_and_providers_do_not_count_as_interrupted() -> None:
    component = {"urn": "urn:c", "type": "gpumpi:infra:Network", "custom": False}
    pending = [{"type": "creating", "resource": item} for item in (component, PROVIDER, make_resource())]
    assert [operation.type for operation in list_pending_operations({"deployment": {"pending_operations": pending}})] == [VPC]
    assert list_pending_operations({"deployment": {}}) == list_pending_operations({"deployment": None}) == []


def test_interrupted_update_refers_to_the_resource_in_the_state() -> None:
    """The record of the interrupted update has no resource ID."""
    (update,) = list_pending_operations(
        make_state(make_resource(id="vpc-0", delete=True), make_resource(id="vpc-1"), updating=make_resource())
    )
    assert update.resource["id"] == "vpc-1"


def test_recovered_resources_enter_the_state_with_their_inputs() -> None:
    (recorded,) = repair_state(make_state(creating=make_resource(outputs={"arn": "a"})), Remnant("vpc-1"))
    assert recorded["id"] == "vpc-1"
    assert recorded["outputs"] == {"tags": {"Name": "net"}, "arn": "a", "id": "vpc-1"}
    assert "taint" not in recorded and "delete" not in recorded


def test_pending_creation_without_a_resource_in_aws_is_dropped() -> None:
    assert repair_state(make_state(creating=make_resource())) == []


def test_resources_that_aws_failed_to_create_are_replaced() -> None:
    (recorded,) = repair_state(make_state(creating=make_resource(GROUP)), Remnant("cluster:group", "CREATE_FAILED"))
    assert recorded["taint"] is True


def test_duplicate_resource_is_deleted_once() -> None:
    first, second = repair_state(make_state(creating=make_resource()), Remnant("vpc-1"), Remnant("vpc-2"))
    assert (first["id"], first.get("delete"), second["id"], second["delete"]) == ("vpc-1", None, "vpc-2", True)


def test_unfinished_replacement_of_a_live_resource_is_deleted() -> None:
    old, new = repair_state(make_state(make_resource(id="vpc-0"), creating=make_resource()), Remnant("vpc-1"))
    assert (old["id"], old.get("delete"), new["id"], new["delete"]) == ("vpc-0", None, "vpc-1", True)


def test_replacement_is_kept_if_the_old_resource_is_already_deleted() -> None:
    before = make_state(
        make_resource(id="vpc-0", pendingReplacement=True), make_resource(name="later", id="vpc-9"), creating=make_resource()
    )
    new, later = repair_state(before, Remnant("vpc-1"))
    assert (new["id"], new.get("pendingReplacement"), later["id"]) == ("vpc-1", None, "vpc-9")


def test_an_interrupted_update_changes_no_resource() -> None:
    assert repair_state(make_state(make_resource(id="vpc-1"), updating=make_resource(id="vpc-1")), Remnant("vpc-1")) == [
        make_resource(id="vpc-1")
    ]


def test_lookups_skip_resources_already_in_the_state(aws_lookups: list[list[Remnant]]) -> None:
    aws_lookups[:] = [[Remnant("vpc-1"), Remnant("vpc-2"), Remnant("vpc-3", "deleted")]]
    before = make_state(make_resource(name="other", id="vpc-1"))
    assert find_remnants(Operation("creating", make_resource()), before, forbid_client, print) == [Remnant("vpc-2")]


def test_recover_waits_for_creations_in_progress_and_reports_once(aws_lookups: list[list[Remnant]]) -> None:
    creating, reports = Remnant("c:g", "CREATING"), list[str]()
    aws_lookups[:] = [[creating], [creating], [Remnant("c:g", "ACTIVE")]]
    assert find_remnants(Operation("creating", make_resource(GROUP)), make_state(), forbid_client, reports.append) == [
        Remnant("c:g", "ACTIVE")
    ]
    assert reports == ["AWS is still working on net (c:g); waiting for it"]


def test_recover_waits_only_for_changes_of_its_own_resource(aws_lookups: list[list[Remnant]]) -> None:
    own, foreign = Remnant("c:g", "UPDATING"), Remnant("c:h", "UPDATING")
    aws_lookups[:] = [[own, foreign], [foreign]]
    reports: list[str] = []
    wait_until_settled(Operation("updating", make_resource(GROUP, id="c:g")), forbid_client, reports.append)
    assert reports == ["AWS is still working on net (c:g); waiting for it"]


def test_waiting_for_aws_ends_at_a_deadline(aws_lookups: list[list[Remnant]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending_operations, "DEADLINE_SECONDS", 0)
    aws_lookups[:] = [[Remnant("c:g", "CREATING")]]
    with pytest.raises(Unknown, match="net: AWS is still working on c:g after 0 minutes; run the command again when"):
        find_remnants(Operation("creating", make_resource(GROUP)), make_state(), forbid_client, print)


def test_kubernetes_object_is_looked_up_by_namespace_and_name_from_inputs() -> None:
    inputs = {"metadata": {"namespace": "jobs", "name": "one"}}
    queue = Operation("creating", make_resource("kubernetes:core/v1:ConfigMap", inputs=inputs))
    assert find_remnants(queue, make_state(), forbid_client, print) == [Remnant("jobs/one")]


def test_unsupported_resource_type_is_reported_with_a_fix() -> None:
    with pytest.raises(Unknown, match="net: the outcome for this aws:sqs/queue:Queue cannot be determined; run `pulumi"):
        find_remnants(Operation("creating", make_resource("aws:sqs/queue:Queue")), make_state(), forbid_client, print)


def test_error_names_missing_permission() -> None:
    def deny_access(service: str) -> Any:
        raise ClientError({"Error": {"Code": "UnauthorizedOperation", "Message": "No."}}, "DescribeVpcs")

    with pytest.raises(Unknown, match="cannot be determined without the permission DescribeVpcs"):
        find_remnants(Operation("creating", make_resource()), make_state(), deny_access, print)


def test_state_without_interrupted_operations_is_unchanged() -> None:
    def run_pulumi(*arguments: str, text: str | None = None) -> str:
        assert arguments == ("stack", "export", "--stack", "dev"), "nothing else is called"
        return '{"version": 3, "deployment": {}}'

    assert recover(run_pulumi, "dev", forbid_client, print) == Recovered([], [], [], [])
