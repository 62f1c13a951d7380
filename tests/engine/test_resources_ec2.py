"""Every EC2 handler creates what the program requests, changes nothing on a second run, and deletes everything."""

import importlib
import inspect
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from localcloud.engine.aws import lifecycle
from localcloud.engine.aws.autonaming import Wish
from localcloud.engine.aws.diff import is_same
from localcloud.engine.aws.resource import RESOURCES, Prop
from tests.engine.ec2_inputs import INPUTS
from tests.engine.ec2_world import (  # noqa: F401
    AUTOSCALING_SCHEDULE,
    DEFAULT_SECURITY_GROUP,
    EGRESS_RULE,
    INGRESS_RULE,
    INSTANCE,
    ROUTE,
    World,
    empty_world,
    shared_account,
)
from tests.engine.life import Recorder

CASES = [
    pytest.param(token, inputs, id=f"{token.split(':')[-1]}-{number}")
    for token, variants in INPUTS.items()
    for number, inputs in enumerate(variants)
]
HANDLERS = {
    token: resource
    for token, resource in RESOURCES.items()
    if type(resource).__module__.rsplit(".", 1)[-1].startswith(("ec2_", "autoscaling"))
}
IDENTITY = {
    AUTOSCALING_SCHEDULE: ("autoscalingGroupName",),
    ROUTE: ("routeTableId", "destinationCidrBlock", "destinationIpv6CidrBlock", "destinationPrefixListId"),
    INGRESS_RULE: ("ipProtocol",),  # AWS reports `udp` for protocol 17
    EGRESS_RULE: ("ipProtocol",),
    # the provider reports `$Default` and encoded user data to the resources that use them
    INSTANCE: ("launchTemplate", "userDataBase64"),
}
"""Properties that a handler needs to find its resource, or to report a value in the program's notation."""


def list_declared_paths(props: Mapping[str, Prop], path: str = "") -> Iterator[str]:
    """Yield all property paths, including nested ones such as `ingress.cidrBlocks`."""
    for name, prop in props.items():
        yield path + name
        yield from list_declared_paths(prop.fields or {}, f"{path}{name}.")


def list_used_paths(props: Mapping[str, Prop], values: Mapping[str, Any], path: str = "") -> Iterator[str]:
    for name, value in values.items():
        yield path + name
        fields = props[name].fields
        for part in (value if isinstance(value, list) else [value]) if fields else []:
            yield from list_used_paths(fields, part, f"{path}{name}.")


def test_every_handler_has_a_test_case() -> None:
    assert set(INPUTS) == set(HANDLERS)


@pytest.mark.parametrize("token", sorted(HANDLERS))
def test_every_declared_property_is_tested(token: str, ec2_world: World) -> None:
    props = HANDLERS[token].props
    tried = {path for inputs in INPUTS[token] for path in list_used_paths(props, inputs(ec2_world))}
    assert set(list_declared_paths(props)) - tried == set()


@pytest.mark.parametrize(("token", "inputs"), CASES)
def test_created_resources_have_the_requested_properties_in_aws(token: str, inputs: Any, ec2_world: World) -> None:
    requested = inputs(ec2_world)
    thing = ec2_world.create(token, **requested)
    props = thing.resource.props
    identity = {name: requested[name] for name in IDENTITY.get(token, ()) if name in requested}
    # Pass only the identity, so that all other values come from AWS.
    state = thing.resource.read(ec2_world.aws, thing.id, identity)
    assert state is not None
    readable = {name: value for name, value in requested.items() if not props[name].write_only}
    ignored = [name for name, value in readable.items() if not is_same(props[name], state.get(name), value)]
    assert not ignored, f"requested {[requested[name] for name in ignored]}, AWS has {[state.get(name) for name in ignored]}"


@pytest.mark.parametrize(("token", "inputs"), CASES)
def test_an_unchanged_program_causes_no_changes(token: str, inputs: Any, ec2_world: World) -> None:
    thing = ec2_world.create(token, **inputs(ec2_world))
    assert thing.find_differences() == set()
    thing.refresh()
    assert thing.find_differences() == set()
    assert lifecycle.refresh_inputs(thing.resource, thing.inputs, thing.state) == thing.inputs


@pytest.mark.parametrize(("token", "inputs"), CASES)
def test_a_deleted_resource_is_gone_and_can_be_deleted_again(token: str, inputs: Any, ec2_world: World) -> None:
    thing = ec2_world.create(token, **inputs(ec2_world))
    thing.delete()
    if token != DEFAULT_SECURITY_GROUP:
        assert thing.refresh() is None
    thing.delete()


def list_sdk_names(token: str, suffix: str = "") -> set[str]:
    """Return the property names of a resource, or of its arguments, as the SDK sends them."""
    module, name = token.split("/")[0].removeprefix("aws:"), token.split(":")[-1]
    members = vars(getattr(importlib.import_module(f"pulumi_aws.{module}"), name + suffix))
    getters = {name: inspect.getsource(member.fget) for name, member in members.items() if isinstance(member, property)}
    renamed = {name: re.search(r'@pulumi\.getter\(name="(\w+)"\)', source) for name, source in getters.items()}
    return {getter[1] if getter else name for name, getter in renamed.items()}


@pytest.mark.parametrize("token", sorted(HANDLERS))
def test_every_property_name_exists_in_the_sdk(token: str, ec2_world: World) -> None:
    assert set(HANDLERS[token].props) - list_sdk_names(token, "Args") == set()
    state = ec2_world.create(token, **INPUTS[token][0](ec2_world)).state
    assert set(state) - list_sdk_names(token) == {"id"}


@pytest.mark.parametrize("token", sorted(HANDLERS))
def test_an_unknown_property_is_refused_by_name(token: str) -> None:
    _, refusals = lifecycle.check(HANDLERS[token], "thing", {"madeUp": 1}, {}, Wish())
    assert [refusal.path for refusal in refusals] == ["madeUp"]


@pytest.mark.parametrize(
    ("token", "name"),
    [(token, name) for token, resource in HANDLERS.items() for name, prop in resource.props.items() if prop.write_only],
)
def test_write_only_inputs_take_effect_in_aws(token: str, name: str, ec2_world: World) -> None:
    inputs = next(inputs for inputs in (make(ec2_world) for make in INPUTS[token]) if name in inputs)
    resource, used = HANDLERS[token], set[str]()
    args = Recorder(inputs, used)
    id = resource.create(ec2_world.aws, args)

    def record_reads() -> Recorder:
        return Recorder({**inputs, **(resource.read(ec2_world.aws, id, inputs) or {})}, used)

    resource.find_replacement_triggers(record_reads(), args, frozenset({name}))
    resource.update(ec2_world.aws, id, record_reads(), args, frozenset({name}))
    resource.delete(ec2_world.aws, id, record_reads())
    assert name in used
