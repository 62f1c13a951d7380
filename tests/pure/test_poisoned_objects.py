"""Whatever users write into the objects of one namespace, the job controller handles the jobs of all others, and sends
requests about these objects only to their namespace."""

import json
import re
import uuid
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.naming import POLICY_ANNOTATION, TAKEN_OUT_ANNOTATION
from infra.platform.job_controller.in_pod import record
from infra.platform.job_controller.in_pod.ignored import REPORTS_PER_ROUND
from infra.platform.job_controller.in_pod.silence import is_kubelet_reachable
from testkit.hostile_objects import TEXTS, corrupted_documents, corrupted_texts, make_full_record
from tests.pure.controlled_jobs import make_main_object, make_timestamp
from tests.pure.controller_world import Request, World, parse_namespace

RESTART_OF_B = ("DELETE", "/api/v1/namespaces/team-b/pods/train-worker-1")
HEALING = ("PATCH", "/api/v1/nodes/broken")

thorough = settings(max_examples=150, deadline=None)


@cache
def list_expected_requests() -> set[Request]:
    """Return the requests about team-b and the nodes if no object is invalid."""
    world = World()
    world.start()
    sent = {request for request in world.run(2) if parse_namespace(request) != "team-a"}
    assert {RESTART_OF_B, HEALING} <= sent
    return sent


def assert_others_are_unaffected(world: World) -> None:
    """Assert that the controller does exactly the same for team-b and the nodes as without the invalid objects."""
    world.start()
    assert {request for request in world.run(2) if parse_namespace(request) != "team-a"} == list_expected_requests()
    assert world.server.bodies[HEALING]["spec"] == {"unschedulable": True}


def test_a_complete_record_is_valid() -> None:
    world = World()
    world.add_record("team-a", make_full_record())
    (config_map,) = world.server.objects["api/v1/namespaces/team-a/configmaps"].values()
    assert record.read_record(config_map) == make_full_record()


@given(text=corrupted_texts(make_full_record()), name=st.sampled_from(["train", "other"]), labels=st.sampled_from([None, {}]))
@thorough
def test_a_record_affects_only_its_own_namespace(text: str, name: str, labels: Any) -> None:
    world = World()
    world.add_record("team-a", text, name, **({} if labels is None else {"labels": labels}))
    assert_others_are_unaffected(world)


@pytest.mark.parametrize(
    "forged",
    [
        {"namespace": "team-b", "ended": "2000-01-02T00:00:00Z", "phase": "Succeeded"},
        {"namespace": "team-b/pods/train-worker-1?x=", "ended": "2000-01-02T00:00:00Z", "phase": "Succeeded"},
        {"uid": "uid-train-team-b", "phase": "Failed"},
        {"uid": "uid-train-team-b", "namespace": "team-b"},
        {"name": "../../team-b/pods/train-worker-1"},
        {"ended": "2000-01-02T00:00:00Z"},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", ["train", "other", "train-worker-1"])
def test_a_forged_record_changes_nothing_in_other_namespaces(forged: dict[str, Any], name: str) -> None:
    world = World()
    world.add_record("team-a", make_full_record(name=name) | forged, name)
    world.add_record("team-a", make_full_record(name=name) | forged, name, name="train-worker-1")
    assert_others_are_unaffected(world)


@given(
    text=corrupted_texts(
        json.loads(make_main_object("torchrun")["metadata"]["annotations"][POLICY_ANNOTATION]) | {"hold": {"queue": "x"}}
    )
)
@thorough
def test_an_annotation_of_a_job_affects_only_that_job(text: str) -> None:
    world = World()
    root = world.make_job("team-a")
    root["metadata"]["annotations"] = {POLICY_ANNOTATION: text}
    world.server.add("apis/batch/v1/namespaces/team-a/jobs", root)
    assert_others_are_unaffected(world)


OBJECT = {
    "spec": make_main_object("torchrun")["spec"],
    "status": {"conditions": [{"type": "Failed", "status": "True"}], "startTime": make_timestamp(1)},
}


@given(changed=corrupted_documents(OBJECT), annotations=st.none() | st.dictionaries(TEXTS, TEXTS))
@thorough
def test_the_spec_and_status_of_a_job_affect_only_that_job(changed: Any, annotations: Any) -> None:
    """The API server does not validate every field of a custom resource."""
    world = World()
    world.server.add("apis/kubeflow.org/v2beta1/namespaces/team-a/mpijobs", {**make_main_object("mpijob"), **changed})
    root = world.make_job("team-a")
    root["metadata"]["annotations"] = annotations
    world.server.add("apis/batch/v1/namespaces/team-a/jobs", {**root, **changed})
    assert_others_are_unaffected(world)


@given(
    quantity=TEXTS | st.text() | st.from_regex(r"[0-9]{1,4}([.][0-9]+)?(m|k|M|Ki|Ei|e3|E20)?", fullmatch=True),
    seconds=st.integers(),
)
@thorough
def test_quantities_and_grace_periods_of_a_pod_affect_only_its_job(quantity: str, seconds: int) -> None:
    world = World()
    for pod in world.pods("team-a"):
        pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": quantity}}
        pod["spec"] |= {"terminationGracePeriodSeconds": seconds, "nodeName": "broken"}
        world.server.add("api/v1/namespaces/team-a/pods", pod)
    assert_others_are_unaffected(world)


OUT_OF_SERVICE = {"at": make_timestamp(0), "state": "draining", "reason": "x", "drains": True, "ending": 5, "action": "reboot"}


@given(text=corrupted_texts(OUT_OF_SERVICE), quantity=TEXTS, renewed=TEXTS)
@thorough
def test_malformed_node_does_not_prevent_healing_of_other_nodes(text: str, quantity: str, renewed: str) -> None:
    world = World()
    for number in range(10):  # the controller takes at most a fifth of the nodes out of service
        world.server.add("api/v1/nodes", world.make_node(f"n{number}"))
    node = world.make_node("two")
    node["metadata"]["annotations"] = {TAKEN_OUT_ANNOTATION: text}
    node["status"]["allocatable"] = {"nvidia.com/gpu": quantity}
    world.server.add("api/v1/nodes", node)
    lease = {"metadata": {"name": "two"}, "spec": {"renewTime": renewed}}
    world.server.add("apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", lease)
    world.start()
    assert {RESTART_OF_B, HEALING} <= set(world.run(2))


@pytest.mark.parametrize("address", ["", "a" * 300, "\ud800", "..", "x\x00y"])
@pytest.mark.parametrize("port", [-1, 65536, 10**30, "x"])
def test_malformed_node_address_raises_no_exception(address: str, port: Any) -> None:
    endpoint = {"kubeletEndpoint": {"Port": port}}
    status = {"addresses": [{"type": "InternalIP", "address": address}], "daemonEndpoints": endpoint}
    assert is_kubelet_reachable({"metadata": {"name": "two"}, "status": status}) in (True, False)


@pytest.mark.parametrize("status", [400, 403, 404, 409, 413, 422, 429, 500, 503])
@pytest.mark.parametrize("refused", ["configmaps", "pods", "events", ""])
def test_refused_writes_of_one_namespace_do_not_stop_others(status: int, refused: str) -> None:
    world = World()
    world.server.refuse = lambda method, url: status if method != "GET" and f"/team-a/{refused}" in url else None
    assert_others_are_unaffected(world)


@pytest.mark.parametrize("kind", ["jobs", "configmaps", "pods", "mpijobs"])
@pytest.mark.parametrize(
    "answer",
    [b"[" * 10**6, b"{", b"[]", b'{"items": [{}], "metadata": {"resourceVersion": "1"}}', b'"x"'],
    ids=["deep", "incomplete", "list", "empty object", "text"],
)
def test_unreadable_namespace_does_not_stop_others(kind: str, answer: bytes) -> None:
    world = World()
    groups = {"jobs": "apis/batch/v1", "mpijobs": "apis/kubeflow.org/v2beta1"}
    world.server.lists[f"{groups.get(kind, 'api/v1')}/namespaces/team-a/{kind}"] = answer
    world.start()
    assert RESTART_OF_B in world.run(2)
    assert not any(parse_namespace(write) == "team-a" for write in world.server.changes), (
        "the controller does not act on unknown objects"
    )


def test_rejected_job_is_retried_with_backoff() -> None:
    world = World()
    world.server.refuse = lambda method, url: 403 if method != "GET" and "/team-a/" in url else None
    world.start()
    world.run(20)
    assert [parse_namespace(change) for change in world.server.changes].count("team-a") == 1


def test_corrupt_job_record_is_replaced() -> None:
    world = World()
    world.add_record("team-a", '{"version": 1}')
    world.start()
    assert ("DELETE", "/api/v1/namespaces/team-a/pods/train-worker-1") in world.run(2)
    (config_map,) = world.server.objects["api/v1/namespaces/team-a/configmaps"].values()
    assert (record.read_record(config_map) or {})["failures"] == 1


def test_a_record_of_a_newer_controller_is_kept() -> None:
    world = World()
    world.add_record("team-a", '{"version": 2}')
    assert_others_are_unaffected(world)
    assert not any(parse_namespace(change) == "team-a" for change in world.server.changes)


INVALID_POLICY = json.dumps({"version": 1, "maxRestarts": "many", "hold": []})
POLICY_SENTENCE = f"annotation {POLICY_ANNOTATION}: ignored because it is invalid: hold, maxRestarts"
RECORD_SENTENCE = "record.json: ignored because it is not a valid record of a job"


def annotate_job(world: World, text: str) -> None:
    root = world.make_job("team-a")
    root["metadata"]["annotations"] = {POLICY_ANNOTATION: text}
    world.server.add("apis/batch/v1/namespaces/team-a/jobs", root)


def list_reports(world: World) -> list[tuple[str, str, str]]:
    """Return kind, name and message of each event in team-a, and check that there are none elsewhere."""
    posts = [request for request in world.server.changes if request[1].endswith("/events")]
    assert {parse_namespace(request) for request in posts} <= {"team-a"}
    events = list(world.server.objects.get("api/v1/namespaces/team-a/events", {}).values())
    assert len(posts) == len(events), "an event was created again"
    return sorted((event["involvedObject"]["kind"], event["involvedObject"]["name"], event["message"]) for event in events)


def test_ignored_annotation_is_reported_once(capsys: pytest.CaptureFixture[str]) -> None:
    world = World()
    annotate_job(world, INVALID_POLICY)
    world.start()
    world.run(3)
    assert capsys.readouterr().err.splitlines().count(f"team-a/train: {POLICY_SENTENCE}") == 1
    assert list_reports(world) == [("Job", "train", POLICY_SENTENCE)]
    (event,) = world.server.objects["api/v1/namespaces/team-a/events"].values()
    assert (event["type"], event["reason"], event["involvedObject"]["uid"]) == ("Warning", "Ignored", "uid-train-team-a")


def test_another_mistake_in_an_annotation_is_reported_too() -> None:
    world = World()
    annotate_job(world, INVALID_POLICY)
    world.start()
    world.run(2)
    annotate_job(world, "{")
    world.read()
    world.run(2)
    assert [message for _, _, message in list_reports(world)] == [
        POLICY_SENTENCE.replace("hold, maxRestarts", "all"),
        POLICY_SENTENCE,
    ]


@pytest.mark.parametrize("text", ["", "{", "null", "[]", '{"version": 1}', '{"version": -1}', "[" * 100_000, 5 * '"'])
def test_invalid_record_is_reported_once(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    world = World()
    world.add_record("team-a", text, "forged")
    world.start()
    world.run(3)
    assert list_reports(world) == [("ConfigMap", "forged-record-uid-trai", RECORD_SENTENCE)]
    assert capsys.readouterr().err.splitlines().count(f"team-a/forged-record-uid-trai: {RECORD_SENTENCE}") == 1


def test_valid_and_newer_records_are_not_reported() -> None:
    world = World()
    world.add_record("team-a", make_full_record())
    world.add_record("team-a", {"version": 2}, "newer")
    world.start()
    world.run(3)
    assert list_reports(world) == []


def test_a_new_controller_does_not_report_an_ignored_document_again() -> None:
    world = World()
    world.add_record("team-a", "{", "forged")
    world.start()
    world.run()
    world.start()
    world.run()
    assert len(world.server.objects["api/v1/namespaces/team-a/events"]) == 1


def test_many_invalid_documents_are_reported_in_several_rounds() -> None:
    """A user who writes many invalid objects does not delay other users."""
    world, number = World(), 2 * REPORTS_PER_ROUND + 1
    for index in range(number):
        world.add_record("team-a", "{", f"forged-{index}")
    world.start()
    counts = []
    for _ in range(4):
        world.run()
        counts.append(len(list_reports(world)))
    assert counts == [REPORTS_PER_ROUND, 2 * REPORTS_PER_ROUND, number, number]


@pytest.mark.parametrize("length", [200, 253])
def test_the_event_of_a_document_has_a_valid_name(length: int) -> None:
    world = World()
    for name in ("a" * (length - 60) + "." + "b" * 59, "a" * 199 + "." * (length > 200) + "c" * (length - 200)):
        world.add_record("team-a", "{", name[:60], name=name, uid=str(uuid.uuid4()))
    world.start()
    world.run()
    names = list(world.server.objects["api/v1/namespaces/team-a/events"])
    assert len(names) == 2
    assert all(
        len(name) <= 253 and all(re.fullmatch("[a-z0-9]([-a-z0-9]*[a-z0-9])?", part) for part in name.split("."))
        for name in names
    )


@pytest.mark.parametrize("status", [403, 404, 422, 500])
def test_refused_event_is_not_sent_in_each_round_and_delays_no_restart(status: int) -> None:
    world = World()
    annotate_job(world, INVALID_POLICY)
    world.server.refuse = lambda method, url: status if method != "GET" and url.endswith("/events") else None
    world.start()
    world.run(5)
    assert [url for method, url in world.server.changes if url.endswith("/events")] == ["/api/v1/namespaces/team-a/events"]
    assert ("DELETE", "/api/v1/namespaces/team-a/pods/train-worker-1") in world.server.changes


def test_jobs_of_other_tools_are_not_reported() -> None:
    world = World()
    root = world.make_job("team-a")
    root["metadata"]["annotations"] = {"another": "{"}
    world.server.add("apis/batch/v1/namespaces/team-a/jobs", root)
    world.start()
    world.run(2)
    assert list_reports(world) == []
