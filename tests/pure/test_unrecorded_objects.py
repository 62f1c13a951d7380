"""Kubernetes objects that an interrupted update created without recording them."""

import json
from datetime import datetime
from typing import Any

import pytest

from infra.recovery.recover_stack import recover
from infra.recovery.unrecorded_objects import find_failed_update_periods, is_created_by_pulumi, list_planned_creates

PROVIDER, PARENT = (
    "urn:pulumi:dev::gpumpi::pulumi:providers:kubernetes::cluster",
    "urn:pulumi:dev::gpumpi::gpumpi:infra:Queue::queue",
)
STATE = {"deployment": {"resources": [{"urn": PROVIDER, "id": "uid", "type": "p"}, {"urn": PARENT, "type": "c"}]}}
NOON, PERIOD = "2026-11-23T12:00:00Z", (datetime.fromisoformat("2026-11-23T11:59Z"), datetime.fromisoformat("2026-11-23T12:01Z"))


def make_step(name: str = "one", op: str = "create", token: str = "kubernetes:core/v1:ConfigMap", **more: Any) -> dict[str, Any]:
    urn = f"{PARENT}${token}::{name}"
    inputs = {"metadata": {"name": name, "namespace": "jobs"}, "data": {"a": "b", "key": "[secret]"}}
    new = {"urn": urn, "type": token, "custom": True, "parent": PARENT, "provider": f"{PROVIDER}::unknown", "inputs": inputs}
    return {"op": op, "urn": urn, "newState": {**new, **more}}


def make_operation(kind: str = "update", result: str = "failed", start: str = "2026-11-23T11:59:00.000Z") -> dict[str, Any]:
    return {"kind": kind, "result": result, "startTime": start, "endTime": "2026-11-23T12:01:00.000Z"}


def make_live_object(manager: str = "pulumi-kubernetes", created: str = NOON) -> dict[str, Any]:
    return {"metadata": {"creationTimestamp": created, "managedFields": [{"manager": manager}]}}


@pytest.mark.parametrize(
    ("history", "number"),
    [
        ([], 0),
        ([make_operation(result="succeeded"), make_operation()], 0),
        ([make_operation("destroy", "succeeded"), make_operation()], 0),
        ([make_operation(), make_operation(), make_operation(result="succeeded")], 2),
        ([make_operation("refresh", "succeeded"), make_operation()], 1),
        ([make_operation("destroy"), make_operation()], 1),
    ],
)
def test_only_failed_updates_since_the_last_success_are_examined(history: list[dict[str, Any]], number: int) -> None:
    assert find_failed_update_periods(history) == [PERIOD] * number


def test_planned_object_has_the_provider_from_the_state_and_no_masked_secret() -> None:
    (operation,) = list_planned_creates({"steps": [make_step(dependencies=["urn:gone", PARENT])]}, STATE)
    assert operation.kind == "creating" and operation.inputs["data"] == {"a": "b"}
    assert operation.resource["provider"] == f"{PROVIDER}::uid"
    assert operation.resource["dependencies"] == [PARENT]


@pytest.mark.parametrize(
    "other",
    [
        make_step(op="update"),
        make_step(token="aws:ec2/vpc:Vpc"),
        make_step(token="kubernetes:core/v1:ConfigMapPatch"),
        make_step(custom=False),
        make_step(parent="urn:not-registered"),
        make_step(provider="urn:not-created::uid"),
        make_step(inputs={"metadata": {"generateName": "one-"}}),
        {"op": "delete", "urn": "urn:x"},
    ],
    ids=str,
)
def test_objects_that_interrupted_requests_cannot_have_created_are_skipped(other: dict[str, Any]) -> None:
    assert list_planned_creates({"steps": [other]}, STATE) == []


@pytest.mark.parametrize(
    ("outputs", "ours"),
    [
        (make_live_object(), True),
        (make_live_object("pulumi-kubernetes-0a1b2c3d"), True),
        (make_live_object(created="2026-11-23T12:01:59Z"), True),
        (make_live_object(created="2026-11-23T12:02:01Z"), False),
        (make_live_object("kubectl-client-side-apply"), False),
        ({"metadata": {"name": "one"}}, False),
        ({}, False),
    ],
)
def test_object_created_during_a_failed_update_belongs_to_the_stack(outputs: dict[str, Any], ours: bool) -> None:
    assert is_created_by_pulumi(outputs, [PERIOD]) is ours


def test_failed_refresh_leaves_the_state_unchanged() -> None:
    imported: list[Any] = []

    def run_pulumi(*arguments: str, text: str | None = None) -> str:
        if arguments[:2] == ("stack", "import"):
            imported.append(json.loads(text or ""))
        if arguments[0] == "refresh":
            raise ConnectionError("the cluster does not answer")
        answers = {"export": STATE, "history": [make_operation()], "preview": {"steps": [make_step()]}}
        return json.dumps(answers.get(arguments[0] if arguments[0] == "preview" else arguments[1], {}))

    with pytest.raises(ConnectionError):
        recover(run_pulumi, "dev", lambda _: pytest.fail("no AWS client is needed"), print)
    assert [len(state["deployment"]["resources"]) for state in imported] == [3, 2]
    assert imported[-1] == STATE


class FakePulumi:
    """Fake Pulumi with a stack's state, and the objects that a refresh finds in the cluster."""

    def __init__(self, **cluster: dict[str, Any]) -> None:
        self.state: dict[str, Any] = json.loads(json.dumps(STATE))
        self.cluster = cluster

    def __call__(self, *arguments: str, text: str | None = None) -> str:
        match arguments[:2]:
            case ("stack", "import"):
                self.state = json.loads(text or "")
            case ("stack", "history"):
                return json.dumps([make_operation()])
            case ("preview", _):
                return json.dumps({"steps": [make_step("held"), make_step("foreign"), make_step("absent")]})
            case ("refresh", _):
                self._refresh_state()
        return json.dumps(self.state)

    def _refresh_state(self) -> None:
        resources = self.state["deployment"]["resources"]
        live = [resource for resource in resources if resource["urn"].rpartition("::")[2] in self.cluster]
        for entry in live:
            entry["outputs"] = self.cluster[entry["urn"].rpartition("::")[2]]
        self.state["deployment"]["resources"] = [item for item in resources if item in live or item["urn"] in (PROVIDER, PARENT)]


def test_only_objects_created_by_this_stack_are_adopted() -> None:
    pulumi, reports = FakePulumi(held=make_live_object(), foreign=make_live_object("kubectl")), list[str]()
    assert recover(pulumi, "dev", lambda _: pytest.fail("no AWS client is needed"), reports.append).found == ["held (jobs/held)"]
    resources = pulumi.state["deployment"]["resources"]
    assert [resource["urn"].rpartition("::")[2] for resource in resources] == ["cluster", "queue", "held"]
    fix = "delete it, or adopt it with `pulumi import`"
    assert reports[1:] == [f"foreign (jobs/foreign) exists, but no failed update of this stack created it; {fix}"]
