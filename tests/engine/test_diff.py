"""Which differences count as changes, and which changes require a replacement."""

import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import localcloud.engine.aws.resources  # noqa: F401  the import registers the handlers
from localcloud.engine.aws import lifecycle
from localcloud.engine.aws.diff import Change, compare
from localcloud.engine.aws.resource import RESOURCES, Prop
from localcloud.engine.codec import UNKNOWN
from localcloud.engine.paths import format_path, parse

PLAIN = Prop()
SET = Prop(unordered=True)
JSON = Prop(json=True)
NEEDS_NEW = Prop(replace=True)
POLICY = '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": ["s3:GetObject", "s3:List*"], "Resource": "*"}]}'
PAIRS = Prop(unordered=True, fields={"a": PLAIN, "b": PLAIN})
RULES = Prop(unordered=True, fields={"port": PLAIN, "cidrs": Prop(unordered=True, default=[])})


def list_changes(prop: Prop, old: Any, new: Any) -> list[str]:
    """Return each change with its path, such as `update! x[0].port`; `!` marks a replacement. The value None for
    `old` or `new` means that the property is missing.
    """
    state, inputs = ({name: value for name, value in (("x", side),) if value is not None} for side in (old, new))
    difference = compare({"x": prop}, state, inputs)
    return [f"{change.kind}{'!' if change.replace else ''} {format_path(change.path)}" for change in difference.changes]


@pytest.mark.parametrize(
    ("prop", "old", "new", "expected"),
    [
        (PLAIN, "a", "a", []),
        (PLAIN, "a", "b", ["update x"]),
        (PLAIN, None, "b", ["add x"]),
        (NEEDS_NEW, "a", "b", ["update! x"]),
        # AWS and Terraform treat missing and empty values alike.
        (PLAIN, None, "", []),
        (PLAIN, None, [], []),
        (PLAIN, None, {}, []),
        (PLAIN, None, False, []),
        (PLAIN, True, False, ["update x"]),
        (PLAIN, ["a"], [], ["delete x"]),
        # A removed input returns to its default; without a default, the current value stays.
        (PLAIN, "chosen by AWS", None, []),
        (Prop(default="a"), "a", None, []),
        (Prop(default="a"), "b", None, ["delete x"]),
        (Prop(default="a", replace=True), "b", None, ["delete! x"]),
        (Prop(default={}), {"Name": "n"}, None, ["delete x"]),
        (Prop(default={}), {}, None, []),
        (Prop(default=True), None, None, ["update x"]),
        # Numbers are equal in any notation: 1, 1.0 and "1".
        (PLAIN, 1, 1.0, []),
        (PLAIN, "1", 1, []),
        (PLAIN, "true", True, []),
        (PLAIN, 1, True, ["update x"]),
        (PLAIN, 1, 2, ["update x"]),
        # Lists are ordered; sets are not.
        (PLAIN, ["a", "b"], ["b", "a"], ["update x[0]", "update x[1]"]),
        (PLAIN, ["a"], ["a", "b"], ["add x[1]"]),
        (PLAIN, ["a", "b"], ["a"], ["delete x[1]"]),
        (SET, ["a", "b"], ["b", "a"], []),
        (SET, ["a", "b"], ["b", "c"], ["delete x[0]", "add x[1]"]),
        (SET, ["a"], ["b"], ["update x[0]"]),
        (SET, ["a", "a"], ["a"], ["delete x[1]"]),
        # In maps, every key is compared.
        (PLAIN, {"a": "1", "b": "2"}, {"a": "1", "c": "3"}, ["delete x.b", "add x.c"]),
        (PLAIN, {"gpumpi:stack": "a"}, {"gpumpi:stack": "b"}, ["update x.gpumpi:stack"]),
        # In objects, only members that the program sets are compared, not those that AWS adds.
        (Prop(fields={"a": PLAIN, "b": PLAIN}), {"a": 1, "b": 2, "arn": "x"}, {"a": 1}, []),
        (Prop(fields={"a": NEEDS_NEW, "b": PLAIN}), {"a": 1, "b": 2}, {"a": 2, "b": 2}, ["update! x.a"]),
        (Prop(fields={"a": NEEDS_NEW, "b": PLAIN}), {"a": 1, "b": 2}, {"a": 1, "b": 3}, ["update x.b"]),
        (RULES, [{"port": 1, "cidrs": ["a", "b"]}, {"port": 2}], [{"port": 2}, {"port": 1, "cidrs": ["b", "a"]}], []),
        (RULES, [{"port": 1, "cidrs": ["a"]}], [{"port": 1}], ["update x[0]"]),
        # The first new element matches both old elements; the second matches only one of them.
        (PAIRS, [{"a": 1, "b": 2}, {"a": 1, "b": 3}], [{"a": 1}, {"a": 1, "b": 2}], []),
        # JSON documents are compared by content, not as text.
        (JSON, '{"a": 1, "b": 2}', '{"b":2,"a":1}', []),
        (JSON, '{"a": 1}', '{"a": 2}', ["update x"]),
        (JSON, '{"a": [1, 2]}', '{"a": [2, 1]}', ["update x"]),
        (JSON, POLICY, POLICY.replace('"s3:GetObject", "s3:List*"', '"s3:List*", "s3:GetObject"'), []),
        (JSON, POLICY, POLICY.replace('"*"', '["*"]'), []),
        (JSON, POLICY, POLICY.replace('"*"', '"a"'), ["update x"]),
        (JSON, "not a document", "not a document", []),
        (JSON, "not a document", "{}", ["update x"]),
        # Unknown values count as changes.
        (PLAIN, "a", UNKNOWN, ["update x"]),
        (NEEDS_NEW, "a", UNKNOWN, ["update! x"]),
        (PLAIN, None, UNKNOWN, ["add x"]),
        (PLAIN, {"a": "1"}, {"a": UNKNOWN}, ["update x.a"]),
        (SET, ["a", "b"], ["a", UNKNOWN], ["update x[1]"]),
    ],
)
def test_a_diff_lists_the_same_changes_as_the_official_provider(prop: Prop, old: Any, new: Any, expected: list[str]) -> None:
    assert list_changes(prop, old, new) == expected


def test_only_program_inputs_are_compared() -> None:
    state = {"name": "a", "arn": "arn:aws:ec2:...", "id": "vpc-1"}
    assert not compare({"name": PLAIN}, state, {"name": "a"})


def test_changes_at_ignored_paths_are_not_reported() -> None:
    props = {"scaling": Prop(fields={"size": PLAIN, "max": PLAIN}), "tags": PLAIN}
    state = {"scaling": {"size": 5, "max": 8}, "tags": {"a.b": "1"}}
    inputs = {"scaling": {"size": 2, "max": 9}, "tags": {"a.b": "2"}}
    difference = compare(props, state, inputs, [parse("scaling.size"), parse('tags["a.b"]')])
    assert difference.changes == (Change(("scaling", "max"), "update"),)


def test_a_diff_lists_changed_properties_and_replacements() -> None:
    props = {"a": NEEDS_NEW, "b": PLAIN, "c": NEEDS_NEW}
    difference = compare(props, {"a": 1, "b": [1], "c": 1}, {"a": 2, "b": [2], "c": 1})
    assert difference.keys == {"a", "b"}
    assert difference.replaces == {"a"}


@pytest.mark.parametrize("text", ["a", "a.b", "a[0]", "a[0].b[11].c", 'a["b.c"]', 'a["b\\"c"].d', "a.gpumpi:stack", "a[*].b"])
def test_a_property_path_survives_parsing_and_formatting(text: str) -> None:
    assert format_path(parse(text)) == text.replace("[*]", ".*")


SCALARS = st.one_of(st.integers(-3, 3), st.booleans(), st.sampled_from(["", "a", "b", "1"]))
NAMES = st.sampled_from(["a", "b", "c", "d.e"])


@st.composite
def props_with_values(draw: st.DrawFn, depth: int = 2) -> tuple[Prop, Any]:
    """Draw a property and a value for it."""
    kind = draw(st.sampled_from(["scalar", "map", "list", "set", "json", "object", "objects"] if depth else ["scalar"]))
    replace = draw(st.booleans())
    if kind == "map":
        return Prop(replace=replace), draw(st.dictionaries(NAMES, SCALARS, max_size=3))
    if kind in ("list", "set"):
        return Prop(replace=replace, unordered=kind == "set"), draw(st.lists(SCALARS, max_size=4))
    if kind == "json":
        return Prop(replace=replace, json=True), json.dumps(draw(st.dictionaries(NAMES, SCALARS, max_size=3)))
    if kind in ("object", "objects"):
        members = draw(st.dictionaries(NAMES, props_with_values(depth=depth - 1), min_size=1, max_size=3))
        fields = {name: prop for name, (prop, _) in members.items()}
        value = {name: value for name, (_, value) in members.items()}
        if kind == "object":
            return Prop(replace=replace, fields=fields), value
        copies = [value] * draw(st.integers(0, 3))
        return Prop(replace=replace, unordered=draw(st.booleans()), fields=fields), copies
    return Prop(replace=replace), draw(SCALARS)


resources = st.dictionaries(NAMES, props_with_values(), min_size=1, max_size=4)
Resource = dict[str, tuple[Prop, Any]]


def get_props(resource: Resource) -> dict[str, Prop]:
    return {name: prop for name, (prop, _) in resource.items()}


def get_values(resource: Resource) -> dict[str, Any]:
    return {name: value for name, (_, value) in resource.items()}


def vary_like_aws(prop: Prop, value: Any, chance: random.Random) -> Any:
    """Return the same value as AWS might report it: with additional members, in another order, or with different
    whitespace.
    """
    if prop.json and value:
        return json.dumps(json.loads(value), indent=2, sort_keys=True)
    if isinstance(value, list):
        reported = [vary_like_aws(Prop(fields=prop.fields), element, chance) for element in value]
        return chance.sample(reported, len(reported)) if prop.unordered else reported
    if isinstance(value, dict) and prop.fields:
        return {"arn": "arn:aws:..."} | {name: vary_like_aws(prop.fields[name], member, chance) for name, member in value.items()}
    return value


@given(resources, st.randoms(use_true_random=False))
def test_a_value_that_aws_considers_equal_is_no_change(resource: Resource, chance: random.Random) -> None:
    state = {name: vary_like_aws(prop, value, chance) for name, (prop, value) in resource.items()}
    assert not compare(get_props(resource), {**state, "id": "x-1"}, get_values(resource))


@given(resources, resources)
def test_an_update_leaves_no_remaining_changes(old: Resource, new: Resource) -> None:
    props = get_props(new)
    difference = compare(props, get_values(old), get_values(new))
    changed = {name: value for name, value in get_values(new).items() if name in difference.keys}
    assert not compare(props, {**get_values(old), **changed}, get_values(new))


@given(resources, resources)
def test_a_diff_lists_properties_that_require_replacement_as_changes_too(old: Resource, new: Resource) -> None:
    difference = compare(get_props(new), get_values(old), get_values(new))
    assert difference.replaces <= difference.keys <= new.keys()
    assert {name for name in difference.keys if new[name][0].replace} <= difference.replaces


@given(resources, st.data())
def test_an_unknown_value_always_counts_as_a_change(resource: Resource, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(resource)))
    inputs = {**get_values(resource), name: UNKNOWN}
    difference = compare(get_props(resource), get_values(resource), inputs)
    assert difference.keys == {name}
    assert (name in difference.replaces) == resource[name][0].replace


@given(resources, st.data())
def test_an_ignored_property_is_never_reported_as_changed(resource: Resource, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(resource)))
    inputs = {**get_values(resource), name: UNKNOWN}
    assert not compare(get_props(resource), get_values(resource), inputs, [(name,)])


@pytest.mark.parametrize(
    ("token", "changed", "first"),
    [
        ("aws:efs/mountTarget:MountTarget", "subnetId", True),
        ("aws:iam/rolePolicyAttachment:RolePolicyAttachment", "policyArn", True),
        ("aws:ec2/subnet:Subnet", "cidrBlock", False),
    ],
)
def test_a_resource_with_a_unique_name_is_deleted_before_its_replacement_is_created(
    token: str, changed: str, first: bool
) -> None:
    """https://github.com/pulumi/pulumi-aws/blob/master/provider/resources.go"""
    resource = RESOURCES[token]
    difference = lifecycle.compute_difference(resource, {changed: "a"}, {changed: "b"})
    assert changed in difference.replaces
    assert lifecycle.must_delete_before_replace(resource, {changed: "b", lifecycle.DEFAULTS: []}, difference) is first
    assert not lifecycle.must_delete_before_replace(
        resource, {changed: "a"}, lifecycle.compute_difference(resource, {changed: "a"}, {changed: "a"})
    )
