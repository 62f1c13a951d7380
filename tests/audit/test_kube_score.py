"""Third-party audit of Kubernetes objects: kube-score judges the platform and the pods of every job variant together."""

from typing import Any

import pytest

from tests.audit.exceptions import Exceptions
from tests.audit.kube_score import scan_manifests
from tests.audit.scanner import Report
from tests.audit.test_checkov_jobs import make_plain_pods
from tests.program.platform_world import deploy_platform, list_manifests, make_settings

EXCEPTIONS = Exceptions("exceptions_kube_score.yaml")

MUST_BE_JUDGED = {
    *("container-security-context-privileged", "container-security-context-readonlyrootfilesystem"),
    *("container-security-context-user-group-id", "pod-networkpolicy", "networkpolicy-targets-pod"),
    *("container-image-tag", "service-targets-pod", "stable-version"),
}

pytestmark = pytest.mark.mission_only


def list_objects() -> list[dict[str, Any]]:
    """Return the objects of the platform, except CRDs, and the pods of jobs in all namespaces that the variants use."""
    pods = make_plain_pods()
    namespaces = sorted({pod["metadata"]["namespace"] for pod in pods})
    stack = make_settings(monitoring=True, namespaces=namespaces)
    objects = [item for item in list_manifests(deploy_platform(stack)) if item["kind"] != "CustomResourceDefinition"]
    return [*objects, *pods]


@pytest.fixture(scope="module")
def report() -> Report:
    return scan_manifests(list_objects())


def test_kube_score_finds_only_documented_exceptions(report: Report) -> None:
    assert EXCEPTIONS.find_unexplained(report) == set()


def test_kube_score_runs_the_expected_checks(report: Report) -> None:
    assert report.passed >= MUST_BE_JUDGED


def test_every_kube_score_exception_is_needed_and_has_a_reason(report: Report) -> None:
    assert EXCEPTIONS.find_unneeded(report) == []


def test_kube_score_detects_planted_faults() -> None:
    pod = make_plain_pods()[0]
    pod["metadata"]["namespace"] = "unprotected"
    pod["spec"]["containers"][0] |= {"image": "example.com/image", "securityContext": {"privileged": True}}
    failed_checks = {finding.check for finding in scan_manifests([pod]).failures}
    assert {"container-security-context-privileged", "container-image-tag", "pod-networkpolicy"} <= failed_checks
