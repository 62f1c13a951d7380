"""Kubernetes objects that an interrupted update created without recording them."""

import json
from datetime import datetime
from typing import Any

import pytest

from infra.recovery.recover_stack import recover
from infra.recovery.unrecorded_objects import is_ours, planned, unfinished

PROVIDER, PARENT = (
    "urn:pulumi:dev::gpumpi::pulumi:providers:kubernetes::cluster",
    "urn:pulumi:dev::gpumpi::gpumpi:infra:Queue::queue",
)
STATE = {"deployment": {"resources": [{"urn": PROVIDER, "id": "uid", "type": "p"}, {"urn": PARENT, "type": "c"}]}}
NOON, PERIOD = "2026-11-23T12:00:00Z", (datetime.fromisoformat("2026-11-23T11:59Z"), datetime.fromisoformat("2026-11-23T12:01Z"))


def step(name: str = "one", op: str = "create", token: str = "kubernetes:core/v1:ConfigMap", **more: Any) -> dict[str, Any]:
    urn = f"{PARENT}${token}::{name}"
    inputs = {"metadata": {"name": name, "namespace": "jobs"}, "data": {"a": "b", "key": "[secret]"}}
    new = {"urn": urn, "type": token, "custom": True, "parent": PARENT, "provider": f"{PROVIDER}::unknown", "inputs": inputs}
    return {"op": op, "urn": urn, "newState": {**new, **more}}


def operation(kind: str = "update", result: str = "failed", start: str = "2026-11-23T11:59:00.000Z") -> dict[str, Any]:
    return {"kind": kind, "result": result, "startTime": start, "endTime": "2026-11-23T12:01:00.000Z"}


def live(manager: str = "pulumi-kubernetes", created: str = NOON) -> dict[str, Any]:
    return {"metadata": {"creationTimestamp": created, "managedFields": [{"manager": manager}]}}


@pytest.mark.parametrize(
    ("history", "number"),
    [
        ([], 0),
        ([operation(result="succeeded"), operation()], 0),
        ([operation("destroy", "succeeded"), operation()], 0),
        ([operation(), operation(), operation(result="succeeded")], 2),
        ([operation("refresh", "succeeded"), operation()], 1),
        ([operation("destroy"), operation()], 1),
    ],
)
def test_only_updates_since_the_last_success_left_something(history: list[dict[str, Any]], number: int) -> None:
    assert unfinished(history) == [PERIOD] * number


def test_a_planned_object_has_the_provider_of_the_state_and_no_masked_secret() -> None:
    (operation,) = planned({"steps": [step(dependencies=["urn:gone", PARENT])]}, STATE)
    assert operation.kind == "creating" and operation.inputs["data"] == {"a": "b"}
    assert operation.resource["provider"] == f"{PROVIDER}::uid"
    assert operation.resource["dependencies"] == [PARENT]


@pytest.mark.parametrize(
    "other",
    [
        step(op="update"),
        step(token="aws:ec2/vpc:Vpc"),
        step(token="kubernetes:core/v1:ConfigMapPatch"),
        step(custom=False),
        step(parent="urn:not-registered"),
        step(provider="urn:not-created::uid"),
        step(inputs={"metadata": {"generateName": "one-"}}),
        {"op": "delete", "urn": "urn:x"},
    ],
    ids=str,
)
def test_whatever_no_interrupted_request_can_have_created_is_not_looked_for(other: dict[str, Any]) -> None:
    assert planned({"steps": [other]}, STATE) == []


@pytest.mark.parametrize(
    ("outputs", "ours"),
    [
        (live(), True),
        (live("pulumi-kubernetes-0a1b2c3d"), True),
        (live(created="2026-11-23T12:01:59Z"), True),
        (live(created="2026-11-23T12:02:01Z"), False),
        (live("kubectl-client-side-apply"), False),
        ({"metadata": {"name": "one"}}, False),
        ({}, False),
    ],
)
def test_ours_is_what_pulumi_created_during_a_failed_update(outputs: dict[str, Any], ours: bool) -> None:
    assert is_ours(outputs, [PERIOD]) is ours


def test_a_failed_refresh_leaves_the_state_as_it_was() -> None:
    imported: list[Any] = []

    def pulumi(*arguments: str, text: str | None = None) -> str:
        if arguments[:2] == ("stack", "import"):
            imported.append(json.loads(text or ""))
        if arguments[0] == "refresh":
            raise ConnectionError("the cluster does not answer")
        answers = {"export": STATE, "history": [operation()], "preview": {"steps": [step()]}}
        return json.dumps(answers.get(arguments[0] if arguments[0] == "preview" else arguments[1], {}))

    with pytest.raises(ConnectionError):
        recover(pulumi, "dev", lambda _: pytest.fail("no AWS client is needed"), print)
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
                return json.dumps([operation()])
            case ("preview", _):
                return json.dumps({"steps": [step("held"), step("foreign"), step("absent")]})
            case ("refresh", _):
                self._refresh()
        return json.dumps(self.state)

    def _refresh(self) -> None:
        resources = self.state["deployment"]["resources"]
        live = [resource for resource in resources if resource["urn"].rpartition("::")[2] in self.cluster]
        for entry in live:
            entry["outputs"] = self.cluster[entry["urn"].rpartition("::")[2]]
        self.state["deployment"]["resources"] = [item for item in resources if item in live or item["urn"] in (PROVIDER, PARENT)]


def test_only_ours_among_the_existing_objects_is_adopted() -> None:
    pulumi, reports = FakePulumi(held=live(), foreign=live("kubectl")), list[str]()
    assert recover(pulumi, "dev", lambda _: pytest.fail("no AWS client is needed"), reports.append).found == ["held (jobs/held)"]
    resources = pulumi.state["deployment"]["resources"]
    assert [resource["urn"].rpartition("::")[2] for resource in resources] == ["cluster", "queue", "held"]
    fix = "delete it, or adopt it with `pulumi import`"
    assert reports[1:] == [f"foreign (jobs/foreign) exists, but no failed update of this stack created it; {fix}"]
