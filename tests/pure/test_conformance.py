"""Comparison of two runs of a stack, and the report of their differences."""

from typing import Any

import pytest

from localcloud.conformance.__main__ import comparable, compared
from localcloud.conformance.bad_inputs import CASES
from localcloud.conformance.compare import SECRET_KEY, differences, normal, resources
from localcloud.conformance.lifecycle import Side
from localcloud.conformance.report import Report, Result

GOOD = {"ok": True, "changes": {}, "errors": []}
STEPS = ("preview", "up", "unchanged up", "refresh", "refresh after drift", "up after drift", "destroy")


def side(**more: Any) -> Side:
    return Side({**dict.fromkeys(STEPS, GOOD), "drift": [], "left": [], **more}, {"urn:a": {"inputs": {"a": 1}}})


@pytest.mark.parametrize(
    ("ours", "theirs", "paths"),
    [
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 2}]}, []),
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}, ["a[1].b: ours 2, theirs 3"]),
        ({"a": 1}, {}, ["a: ours 1, theirs '(missing)'"]),
        ({"a": [1]}, {"a": [1, 2]}, ["a: ours [1], theirs [1, 2]"]),
        ({"a": 0}, {"a": False}, ["a: ours 0, theirs False"]),
    ],
)
def test_every_difference_has_a_path(ours: Any, theirs: Any, paths: list[str]) -> None:
    assert differences(ours, theirs) == paths


@pytest.mark.parametrize(
    ("first", "other"),
    [
        ("vpc-0123456789abcdef0 is in use", "vpc-0fedcba9876543210 is in use"),
        ({"metadata": {"uid": "a", "name": "x"}}, {"metadata": {"uid": "b", "name": "x"}}),
        ({"key": {SECRET_KEY: "x", "ciphertext": "a"}}, {"key": {SECRET_KEY: "x", "ciphertext": "b"}}),
        ("key/9c4a87e9-42af-4ff8-bdaa-012345678901", "key/0ea81f0c-4c6d-4c1e-9f2b-0123456789ab"),
        ("at 2026-11-23T12:00:00Z", "at 2026-11-23T13:00:00Z"),
        ("role/gpumpi-local-cluster-role-39d8252", "role/gpumpi-local-cluster-role-9f9ccb4"),
        ('File "/a/pulumi-language-python-exec", line 1', 'File "/b/c/pulumi-language-python-exec", line 1'),
        ("Traceback (most recent call last):\n  File a\n    b\nE: c", "Traceback (most recent call last):\n  File d\nE: c"),
        ("http://127.0.0.1:4711/x", "http://127.0.0.1:4712/x"),
    ],
)
def test_normalizing_removes_values_that_differ_between_runs(first: Any, other: Any) -> None:
    assert normal(first) == normal(other)
    assert normal({"replicas": 1}) != normal({"replicas": 2})


def test_kubernetes_objects_are_compared_as_they_live_in_the_cluster() -> None:
    token = "kubernetes:core/v1:ConfigMap"
    state = {"deployment": {"resources": [{"urn": "u", "type": token, "inputs": {}, "outputs": {"data": {"a": "b"}}}]}}
    assert resources(state) == {"u": {"inputs": {}, "outputs": {"data": {"a": "b"}}}}


def test_the_settings_that_point_an_official_provider_at_the_local_aws_are_left_out() -> None:
    inputs = {"region": "us-west-2", "endpoints": "[]", "httpProxy": "http://127.0.0.1:1", "s3UsePathStyle": "true"}
    state = {"deployment": {"resources": [{"urn": "u", "type": "pulumi:providers:aws", "inputs": inputs}]}}
    assert resources(state) == {"u": {"inputs": {"region": "us-west-2"}}}


def test_a_stack_that_would_use_the_users_kubeconfig_is_never_run() -> None:
    assert comparable(["local", "09-on-premises"]) == (["local"], ["09-on-premises: would use your own kubeconfig"])


@pytest.mark.parametrize(
    ("theirs", "verdict"),
    [
        (side(), "identical"),
        (side(up={"ok": True, "changes": {"create": 1}, "errors": []}), "1 differences"),
        (side(up={"ok": False, "changes": {}, "errors": ["no"]}), "failed"),
        (side(**{"unchanged up": {"ok": True, "changes": {"update": 1}, "errors": []}}), "failed"),
        (side(left=["vpc-1"]), "failed"),
        ("pulumi stack select: no", "failed"),
    ],
)
def test_a_side_that_fails_or_differs_is_never_identical(theirs: Side | str, verdict: str) -> None:
    result = compared("local", side(), theirs)
    assert result.verdict == verdict
    assert Report("", {}, (), [result]).differs == (verdict != "identical")


def test_the_report_names_versions_results_and_what_was_not_run() -> None:
    report = Report(
        "2026-11-23", {"pulumi": "3.246.0 (/usr/bin/pulumi)"}, ["aws provider: no"], [Result("local", ["a: b"], {}, 9, 3)]
    )
    assert report.as_markdown() == (
        "# Conformance, 2026-11-23\n\n| program | version |\n|---|---|\n| pulumi | 3.246.0 (/usr/bin/pulumi) |\n\n"
        "| compared | steps | resources | result |\n|---|---|---|---|\n| local | 9 | 3 | 1 differences |\n\n"
        "- not run: aws provider: no\n- local: a: b\n"
    )
    assert report.as_json()["complete"] is False and report.as_json()["identical"] is False


def test_there_are_ten_bad_inputs() -> None:
    assert len(CASES) == 10
