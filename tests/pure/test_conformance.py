"""Comparison of two runs of a stack, and the report of their differences."""

from typing import Any

import pytest

from localcloud.conformance.__main__ import compare_stack, select_stacks
from localcloud.conformance.bad_inputs import CASES
from localcloud.conformance.compare import SECRET_KEY, collect_resources, find_differences, normalize
from localcloud.conformance.lifecycle import Side
from localcloud.conformance.report import Report, Result

GOOD = {"ok": True, "changes": {}, "errors": []}
STEPS = ("preview", "up", "unchanged up", "refresh", "refresh after drift", "up after drift", "destroy")


def make_comparison_side(**more: Any) -> Side:
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
    assert find_differences(ours, theirs) == paths


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
    assert normalize(first) == normalize(other)
    assert normalize({"replicas": 1}) != normalize({"replicas": 2})


def test_kubernetes_objects_are_compared_by_their_live_state() -> None:
    token = "kubernetes:core/v1:ConfigMap"
    state = {"deployment": {"resources": [{"urn": "u", "type": token, "inputs": {}, "outputs": {"data": {"a": "b"}}}]}}
    assert collect_resources(state) == {"u": {"inputs": {}, "outputs": {"data": {"a": "b"}}}}


def test_provider_settings_for_local_aws_endpoints_are_ignored() -> None:
    inputs = {"region": "us-west-2", "endpoints": "[]", "httpProxy": "http://127.0.0.1:1", "s3UsePathStyle": "true"}
    state = {"deployment": {"resources": [{"urn": "u", "type": "pulumi:providers:aws", "inputs": inputs}]}}
    assert collect_resources(state) == {"u": {"inputs": {"region": "us-west-2"}}}


def test_a_stack_that_would_use_the_users_kubeconfig_is_never_run() -> None:
    assert select_stacks(["local", "09-on-premises"]) == (["local"], ["09-on-premises: would use your own kubeconfig"])


@pytest.mark.parametrize(
    ("theirs", "verdict"),
    [
        (make_comparison_side(), "identical"),
        (make_comparison_side(up={"ok": True, "changes": {"create": 1}, "errors": []}), "1 differences"),
        (make_comparison_side(up={"ok": False, "changes": {}, "errors": ["no"]}), "failed"),
        (make_comparison_side(**{"unchanged up": {"ok": True, "changes": {"update": 1}, "errors": []}}), "failed"),
        (make_comparison_side(left=["vpc-1"]), "failed"),
        ("pulumi stack select: no", "failed"),
    ],
)
def test_failed_or_differing_run_is_never_reported_as_identical(theirs: Side | str, verdict: str) -> None:
    result = compare_stack("local", make_comparison_side(), theirs)
    assert result.verdict == verdict
    assert Report("", {}, (), [result]).has_differences == (verdict != "identical")


def test_report_lists_versions_results_and_skipped_cases() -> None:
    report = Report(
        "2026-11-23", {"pulumi": "3.246.0 (/usr/bin/pulumi)"}, ["aws provider: no"], [Result("local", ["a: b"], {}, 9, 3)]
    )
    assert report.as_markdown() == (
        "# Conformance, 2026-11-23\n\n| program | version |\n|---|---|\n| pulumi | 3.246.0 (/usr/bin/pulumi) |\n\n"
        "| compared | steps | resources | result |\n|---|---|---|---|\n| local | 9 | 3 | 1 differences |\n\n"
        "- not run: aws provider: no\n- local: a: b\n"
    )
    assert report.as_json()["complete"] is False and report.as_json()["identical"] is False


def test_ten_invalid_inputs_are_defined() -> None:
    assert len(CASES) == 10
