"""Lifecycle of every resource type: create, no change, update in place, replace, drift, delete."""

from collections.abc import Mapping

import pytest

from localcloud.engine.aws.diff import is_same
from localcloud.engine.aws.resource import RESOURCES, Prop
from tests.engine.cases import ecr, efs, eks, fsx, iam, kms, logs, s3
from tests.engine.cases.case import Case
from tests.engine.life import Life, Recorder
from tests.engine.world import World, module_account, new_world  # noqa: F401

CASES = [*iam.CASES, *kms.CASES, *logs.CASES, *ecr.CASES, *efs.CASES, *fsx.CASES, *s3.CASES, *eks.CASES]
UPDATES = [(case, name) for case in CASES for name in case.updates]
REMOVALS = [(case, name) for case in CASES for name in sorted(case.removals)]
REPLACES = [(case, name) for case in CASES for name in case.replaces]
CHANGING = [case for case in CASES if case.drift is not None]
every_type = pytest.mark.parametrize("case", CASES, ids=str)
OTHER_WORDS = {"accessConfig", "targetKeyId"}
"""Properties whose reported value differs from the requested one: a cluster's initial admin setting, and the key of an
alias (AWS reports the key's id).
"""
IDENTITY = ("clusterName",)
"""Properties that a read may need in addition to the id."""


def make_life(case: Case, world: World) -> Life:
    return Life(case.resource, world.aws, case.make_inputs(world))


@every_type
def test_created_resources_have_the_requested_properties_in_aws(case: Case, world: World) -> None:
    life, props = make_life(case, world), case.resource.props
    requested = life.program_inputs()
    state = case.resource.read(world.aws, life.id, {name: requested[name] for name in IDENTITY if name in requested}) or {}
    ignored = {
        name
        for name, value in requested.items()
        if not props[name].write_only and not is_same(props[name], state.get(name), value)
    }
    assert ignored <= OTHER_WORDS, state


@every_type
def test_an_unchanged_program_causes_no_changes(case: Case, world: World) -> None:
    life = make_life(case, world)
    assert life.find_differences() == set(), life.state
    life.refresh()
    assert life.find_differences() == set(), life.state
    assert set(life.program_inputs()) <= set(life.state)


@every_type
def test_unset_inputs_cause_no_difference(case: Case, world: World) -> None:
    least = {name: value for name, value in case.make_inputs(world).items() if name in case.needed}
    life = Life(case.resource, world.aws, least)
    assert life.find_differences() == set(), life.state
    life.refresh()
    assert life.find_differences() == set(), life.state


@pytest.mark.parametrize(("case", "name"), UPDATES, ids=str)
def test_a_changed_input_is_updated_in_place(case: Case, name: str, world: World) -> None:
    life = make_life(case, world)
    new = {**life.program_inputs(), name: case.updates[name](world)}
    assert life.find_differences(new) == {name}
    assert life.find_replacements(new) == set()
    life.update(new)
    life.refresh()
    assert life.find_differences() == set(), life.state


@pytest.mark.parametrize(("case", "name"), REMOVALS, ids=str)
def test_a_removed_input_is_removed_in_place(case: Case, name: str, world: World) -> None:
    life = make_life(case, world)
    new = {key: value for key, value in life.program_inputs().items() if key != name}
    assert life.find_differences(new) == {name}
    assert life.find_replacements(new) == set()
    life.update(new)
    life.refresh()
    assert life.find_differences() == set(), life.state


@pytest.mark.parametrize(("case", "name"), REPLACES, ids=str)
def test_a_changed_input_can_require_a_replacement(case: Case, name: str, world: World) -> None:
    life = make_life(case, world)
    assert life.find_replacements({**life.program_inputs(), name: case.replaces[name](world)}) == {name}


@pytest.mark.parametrize("case", CHANGING, ids=str)
def test_a_refresh_shows_drift_and_the_next_update_reverts_it(case: Case, world: World) -> None:
    life = make_life(case, world)
    assert case.drift is not None
    case.drift(world, life.id)
    life.refresh()
    assert life.find_differences() == case.drifted
    life.update(life.program_inputs())
    life.refresh()
    assert life.find_differences() == set()


@every_type
def test_a_deleted_resource_is_gone_and_can_be_deleted_again(case: Case, world: World) -> None:
    life = make_life(case, world)
    life.delete()
    left = life.refresh()
    assert (case.remains or {}).items() <= (left or {}).items()
    assert left is None or case.remains
    life.delete()


@every_type
def test_every_declared_input_is_used(case: Case, world: World) -> None:
    reads: set[str] = set()
    resource, aws = case.resource, world.aws
    for make_inputs in (case.make_inputs, *case.instead):
        life = Life(resource, aws, make_inputs(world))
        resource.delete(aws, life.id, Recorder(life.state, reads))
        resource.delete(aws, resource.create(aws, Recorder(life.program_inputs(), reads)), life.state)
    life = Life(resource, aws, case.make_inputs(world))
    new = life.program_inputs()
    for name, make_value in case.updates.items():
        new[name] = make_value(world)
        resource.update(aws, life.id, life.state, Recorder(new, reads), frozenset({name}))
        life.refresh()
    assert list_declared_paths(resource.props) - reads == set()


def list_declared_paths(props: Mapping[str, Prop], path: str = "") -> set[str]:
    paths: set[str] = set()
    for name, prop in props.items():
        here = f"{path}.{name}" if path else name
        paths |= {here} | list_declared_paths(prop.fields or {}, here)
    return paths


def test_every_resource_type_has_a_test_case() -> None:
    elsewhere = ("aws:ec2/", "aws:vpc/", "aws:autoscaling/")
    assert {case.token for case in CASES} == {token for token in RESOURCES if not token.startswith(elsewhere)}
