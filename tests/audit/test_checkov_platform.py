"""Third-party audit of the platform: checkov scans all Kubernetes objects that `pulumi up` installs."""

from pathlib import Path
from typing import Any

import pytest

from tests.audit.exceptions import Exceptions
from tests.audit.scanner import Report, scan_manifests
from tests.program.platform_world import deploy_platform, list_manifests, make_settings

EXCEPTIONS = Exceptions("exceptions_platform.yaml")

MUST_BE_JUDGED = {
    # Privileged mode, host namespaces, privilege escalation
    *("CKV_K8S_16", "CKV_K8S_17", "CKV_K8S_18", "CKV_K8S_19", "CKV_K8S_20"),
    # Root user, capabilities, seccomp
    *("CKV_K8S_22", "CKV_K8S_23", "CKV_K8S_28", "CKV_K8S_31", "CKV_K8S_37", "CKV_K8S_40"),
    # Probes, resource requests and limits, image tag
    *("CKV_K8S_8", "CKV_K8S_9", "CKV_K8S_10", "CKV_K8S_12", "CKV_K8S_13", "CKV_K8S_14"),
    # RBAC permissions
    *("CKV_K8S_49", "CKV_K8S_155", "CKV_K8S_156", "CKV_K8S_157", "CKV_K8S_158", "CKV2_K8S_5"),
}

pytestmark = [pytest.mark.xdist_group("checkov"), pytest.mark.mission_only]


def list_objects() -> list[dict[str, Any]]:
    """Return all objects except CRDs, which are large and not covered by any check."""
    return [
        manifest
        for manifest in list_manifests(deploy_platform(make_settings(monitoring=True)))
        if manifest["kind"] != "CustomResourceDefinition"
    ]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return scan_manifests(list_objects(), tmp_path_factory.mktemp("platform"))


def test_checkov_finds_only_documented_exceptions(report: Report) -> None:
    assert EXCEPTIONS.find_unexplained(report) == set()


def test_checkov_runs_the_expected_checks(report: Report) -> None:
    assert report.passed >= MUST_BE_JUDGED


def test_every_checkov_exception_is_needed_and_has_a_reason(report: Report) -> None:
    assert EXCEPTIONS.find_unneeded(report) == []


def test_checkov_detects_planted_faults(tmp_path: Path) -> None:
    planted = next(manifest for manifest in list_objects() if manifest["kind"] == "Deployment")
    planted["spec"]["template"]["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    planted["spec"]["template"]["spec"]["hostNetwork"] = True
    failed_checks = {finding.check for finding in scan_manifests([planted], tmp_path).failures}
    assert {"CKV_K8S_16", "CKV_K8S_19", "CKV_K8S_20"} <= failed_checks
