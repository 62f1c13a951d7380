"""The provider emulator's response to each kind of request from the engine."""

from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.protobuf import empty_pb2
from pulumi.runtime.proto import provider_pb2

from localcloud.engine.aws.lifecycle import DEFAULTS
from localcloud.engine.aws.resource import RESOURCES
from localcloud.engine.aws.server import read_plugin_version, start
from localcloud.engine.codec import UNKNOWN, decode
from tests.engine.shelf import PROVIDER_URN, TOKEN, URN, Engine, Shelf, read_init_failure


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> Shelf:
    handler = Shelf()
    monkeypatch.setitem(RESOURCES, TOKEN, handler)
    return handler


@pytest.fixture
def port(shelf: Shelf) -> Iterator[int]:
    server, port = start(0, "http://127.0.0.1:1")
    yield port
    server.stop(None).wait()


@pytest.fixture
def engine(port: int) -> Engine:
    return Engine(port)


def test_the_provider_reports_the_version_of_the_sdk(engine: Engine) -> None:
    assert engine.stub.GetPluginInfo(empty_pb2.Empty()).version == read_plugin_version()


def test_an_input_that_no_handler_uses_is_refused_with_its_path(engine: Engine) -> None:
    _, failures = engine.check({"name": "a", "boards": [{"color": "red"}, {"depth": 3}], "height": 2})
    assert failures == {
        "boards[1].depth": f'the local provider does not support "boards[1].depth" of {TOKEN}',
        "height": f'the local provider does not support "height" of {TOKEN}',
    }


def test_an_unnamed_resource_gets_its_logical_name_and_seven_digits(engine: Engine) -> None:
    inputs, _ = engine.check({})
    stem, _, digits = inputs["name"].rpartition("-")
    assert (stem, len(digits), set(digits) <= set("0123456789abcdef")) == ("books", 7, True)
    assert inputs[DEFAULTS] == ["name"]


def test_a_generated_name_is_kept_by_later_updates(engine: Engine) -> None:
    first, _ = engine.check({})
    assert engine.check({"place": "floor"}, first)[0]["name"] == first["name"]


@pytest.mark.parametrize("named", [{"name": "mine"}, {"namePrefix": "mine-"}])
def test_an_explicit_name_replaces_a_generated_name(engine: Engine, named: dict[str, str]) -> None:
    inputs, _ = engine.check(named, {"name": "books-1234567", DEFAULTS: ["name"]})
    assert inputs == {**named, DEFAULTS: []}


def test_a_name_too_long_for_the_suffix_is_refused(engine: Engine) -> None:
    long = URN.replace("books", "books-of-my-grandmother")
    answer = engine.stub.Check(provider_pb2.CheckRequest(urn=long, news={}, olds={}))
    reason = "name 'books-of-my-grandmother-' plus 7 random chars is longer than maximum length 24"
    assert [(failure.property, failure.reason) for failure in answer.failures] == [("name", reason)]


def test_the_same_random_seed_gives_the_same_resource_name(engine: Engine) -> None:
    assert engine.check({}, randomSeed=b"1")[0] == engine.check({}, randomSeed=b"1")[0] != engine.check({}, randomSeed=b"2")[0]


def test_the_autonaming_rule_of_the_stack_is_followed(engine: Engine) -> None:
    proposed, _ = engine.check({}, autonaming={"proposed_name": "dev-books", "mode": "PROPOSE"})
    disabled, _ = engine.check({}, autonaming={"mode": "DISABLE"})
    assert (proposed["name"], disabled.get("name")) == ("dev-books", None)


@pytest.mark.parametrize(("named_by_us", "first"), [(["name"], False), ([], True)])
def test_a_replacement_with_the_same_name_is_created_after_the_deletion(
    engine: Engine, named_by_us: list[str], first: bool
) -> None:
    diff = engine.diff({"name": "a", "place": "wall"}, {"name": "a", "place": "floor", DEFAULTS: named_by_us})
    assert (list(diff.replaces), diff.deleteBeforeReplace) == (["place"], first)


def test_a_replacement_with_a_new_name_is_created_before_the_deletion(engine: Engine) -> None:
    assert not engine.diff({"name": "a"}, {"name": "b", DEFAULTS: []}).deleteBeforeReplace


def test_a_diff_lists_each_changed_path(engine: Engine) -> None:
    diff = engine.diff({"tags": {"a": "1", "b": "2"}, "place": "wall"}, {"tags": {"a": "2", "c.d": "3"}, "place": "floor"})
    kinds = {path: diff.detailedDiff[path].Kind.Name(diff.detailedDiff[path].kind) for path in diff.detailedDiff}
    assert kinds == {"place": "UPDATE_REPLACE", "tags.a": "UPDATE", "tags.b": "DELETE", 'tags["c.d"]': "ADD"}
    assert sorted(diff.diffs) == ["place", "tags"]


def test_a_preview_of_a_creation_knows_only_the_inputs(engine: Engine, shelf: Shelf) -> None:
    id, (state, _) = engine.create({"name": "a", "size": {"wanted": UNKNOWN}, "boards": [{"color": "red"}]}, preview=True)
    assert (id, shelf.shelves) == ("", {})
    assert state == {"name": "a", "size": {"wanted": UNKNOWN, "used": UNKNOWN}, "boards": [{"color": "red", "number": UNKNOWN}]}


def test_the_state_of_a_new_resource_contains_values_from_aws_and_write_only_inputs(engine: Engine) -> None:
    id, (state, _) = engine.create({"name": "a", "password": "p", "size": {"wanted": 2}})
    assert state == {
        "id": id,
        "name": "a",
        "password": "p",
        "place": "wall",
        "size": {"wanted": 2, "used": 0},
        "version": 1,
    }


def test_an_equivalent_document_keeps_the_formatting_of_the_program(engine: Engine, shelf: Shelf) -> None:
    id, (state, _) = engine.create({"document": '{ "a": 1 }'})
    shelf.shelves[id]["document"] = '{"a":1}'
    assert engine.read(id, state, {"document": '{ "a": 1 }'})[1]["document"] == '{ "a": 1 }'
    shelf.shelves[id]["document"] = '{"a":2}'
    assert engine.read(id, state, {"document": '{ "a": 1 }'})[2]["document"] == '{"a":2}'


def test_secret_inputs_are_secret_in_the_state(engine: Engine) -> None:
    _, (_, secrets) = engine.create(
        {"password": "p", "tags": {"a": "1", "b": "2"}, "boards": [{"color": "red"}]},
        {"password": True, "tags": {"b": True}, "boards": True},
    )
    assert secrets == {"password": True, "tags": {"b": True}, "boards": True}


def test_a_failed_creation_reports_resource_and_cause_and_leaves_nothing_behind(engine: Engine) -> None:
    with pytest.raises(grpc.RpcError) as failed:
        engine.create({"name": "a", "fail": "create"})
    assert failed.value.details() == "creating Test Shelf (a): the wall is too weak"
    assert read_init_failure(failed.value) is None


def test_a_bug_in_a_handler_is_reported_as_an_internal_error(engine: Engine) -> None:
    with pytest.raises(grpc.RpcError) as failed:
        engine.create({"fail": "bug"})
    reason = "internal error in the local provider; see its log: KeyError: 'screw'"
    assert failed.value.details() == f"creating Test Shelf (books): {reason}"


def test_a_half_created_resource_is_recorded_with_the_requested_inputs(engine: Engine, shelf: Shelf) -> None:
    with pytest.raises(grpc.RpcError) as failed:
        engine.create({"name": "a", "tags": {"a": "1"}, "fail": "halfway"}, {"tags": True})
    detail = read_init_failure(failed.value)
    state, secrets = decode(detail.properties)
    assert (detail.id, list(detail.reasons)) == ("shelf-0", ["creating Test Shelf (a): no paint"])
    assert (state["tags"], state["version"], secrets) == ({"a": "1"}, 1, {"tags": True})
    assert shelf.shelves["shelf-0"]["tags"] == {}


def test_reading_a_missing_resource_returns_nothing(engine: Engine) -> None:
    assert engine.read("shelf-9", {"name": "a"}, {"name": "a"}) == ("", {}, {})


def test_a_refresh_copies_drift_into_the_inputs(engine: Engine, shelf: Shelf) -> None:
    inputs = {"name": "a", "tags": {"a": "1"}, "boards": [{"color": "red"}, {"color": "blue"}], "password": "p", DEFAULTS: []}
    id, (state, _) = engine.create({**inputs})
    shelf.shelves[id]["tags"] = {"a": "2"}
    shelf.shelves[id]["boards"] = [{"color": "blue", "number": 2}, {"color": "red", "number": 1}]
    shelf.shelves[id]["place"] = "floor"
    _, state, refreshed = engine.read(id, state, inputs)
    assert refreshed == {**inputs, "tags": {"a": "2"}}, "a different order, or members that AWS added, are not drift"
    assert state["place"] == "floor"
    assert list(engine.diff(state, inputs).diffs) == ["place", "tags"]


def test_an_import_records_all_inputs_without_default_values(engine: Engine, shelf: Shelf) -> None:
    id, _ = engine.create({"name": "a", "tags": {"a": "1"}})
    assert engine.read(id)[2] == {"name": "a", "tags": {"a": "1"}, DEFAULTS: []}


def test_an_update_sends_only_changed_properties_and_reads_the_resource(engine: Engine, shelf: Shelf) -> None:
    id, (state, _) = engine.create({"name": "a", "tags": {"a": "1"}})
    news = engine.update(id, state, {"name": "a", "tags": {"a": "2"}, DEFAULTS: []})
    assert shelf.updates == [({"name": "a", "tags": {"a": "2"}}, frozenset({"tags"}))]
    assert (news["tags"], news["version"]) == ({"a": "2"}, 2)


def test_an_update_without_changes_makes_no_call(engine: Engine, shelf: Shelf) -> None:
    id, (state, _) = engine.create({"name": "a"})
    assert engine.update(id, state, {"name": "a"}) == state
    assert shelf.updates == []


def test_an_update_does_not_revert_ignored_properties(engine: Engine, shelf: Shelf) -> None:
    id, (state, _) = engine.create({"name": "a", "size": {"wanted": 2, "most": 8}})
    state["size"]["wanted"] = 5  # drift found by a refresh
    engine.update(id, state, {"name": "a", "size": {"wanted": 2, "most": 9}}, ("size.wanted",))
    assert shelf.updates == [({"name": "a", "size": {"wanted": 5, "most": 9}}, frozenset({"size"}))]


def test_a_preview_of_an_update_keeps_known_outputs(engine: Engine, shelf: Shelf) -> None:
    id, (state, _) = engine.create({"name": "a", "size": {"wanted": 2}})
    news = engine.update(id, state, {"name": "a", "size": {"wanted": 3}}, preview=True)
    assert news == {**state, "size": {"wanted": 3, "used": 0}, "version": UNKNOWN}
    assert engine.update(id, state, {"name": "a", "size": {"wanted": 2}}, preview=True) == state
    assert shelf.updates == []


def test_a_failed_update_is_repeated_by_the_next_update(engine: Engine, shelf: Shelf) -> None:
    id, (state, _) = engine.create({"name": "a", "tags": {"a": "1"}})
    inputs = {"name": "a", "tags": {"a": "2"}, "fail": "update"}
    with pytest.raises(grpc.RpcError) as failed:
        engine.update(id, state, inputs)
    detail = read_init_failure(failed.value)
    assert list(detail.reasons) == [f"updating Test Shelf ({id}): nobody has a drill"]
    assert sorted(engine.diff(decode(detail.properties)[0], inputs).diffs) == ["fail", "tags"]


def test_deleting_a_missing_resource_succeeds(engine: Engine) -> None:
    engine.delete("shelf-9")


def test_each_provider_connection_uses_its_own_region(port: int, shelf: Shelf) -> None:
    west, east = Engine(port, "us-west-2"), Engine(port, "us-east-1")
    west.create({})
    east.create({})
    assert shelf.regions == ["us-west-2", "us-east-1"]


def test_a_lost_connection_recovers_its_region_from_the_stack(port: int, shelf: Shelf) -> None:
    Engine(port, "eu-west-1").create({})
    again = Engine(port, region=None)
    again.create({})
    assert shelf.regions == ["eu-west-1"] * 2
    with pytest.raises(grpc.RpcError) as failed:
        again.create({}, urn=URN.replace(":dev:", ":prod:"))
    assert failed.value.details() == "the local provider has no configuration for this Pulumi operation; was it restarted?"


def test_a_lost_connection_is_rejected_if_the_stack_has_two_regions(port: int, shelf: Shelf) -> None:
    Engine(port, "us-west-2")
    Engine(port, region=None).configure(PROVIDER_URN.replace("default", "east"), region="us-east-1")
    with pytest.raises(grpc.RpcError) as failed:
        Engine(port, region=None).create({})
    assert failed.value.details() == "the local provider has no configuration for this Pulumi operation; was it restarted?"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"region": "us-west-2", "profile": "work"},
            "the local provider does not support the provider setting profile; it accepts only region",
        ),
        ({}, "Missing region configuration. Set it with `pulumi config set aws:region <region>`"),
    ],
)
def test_a_provider_setting_without_effect_is_refused(port: int, config: dict[str, Any], message: str) -> None:
    with pytest.raises(grpc.RpcError) as failed:
        Engine(port, region=None).configure(PROVIDER_URN, **config)
    assert failed.value.details() == message


def test_settings_always_sent_by_pulumi_are_accepted(port: int) -> None:
    Engine(port, region=None).configure(region="us-west-2", version="7.51.1", skipCredentialsValidation=False)
