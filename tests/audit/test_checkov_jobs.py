"""Third-party audit of jobs: checkov scans the pods of every job variant as plain Pods."""

from pathlib import Path
from typing import Any

import pytest

from tests.audit.exceptions import Exceptions
from tests.audit.scanner import Report, scan_manifests
from tests.pure.job_world import render_objects
from tests.pure.test_job_manifests import VARIANTS

EXCEPTIONS = Exceptions("exceptions_jobs.yaml")

MUST_BE_JUDGED = {
    # Privileged mode, host namespaces, privilege escalation
    *("CKV_K8S_16", "CKV_K8S_17", "CKV_K8S_18", "CKV_K8S_19", "CKV_K8S_20"),
    # Read-only root file system, user, capabilities, seccomp
    *("CKV_K8S_22", "CKV_K8S_23", "CKV_K8S_28", "CKV_K8S_31", "CKV_K8S_37"),
    # Resource requests and limits, pull policy, service account token
    *("CKV_K8S_10", "CKV_K8S_11", "CKV_K8S_12", "CKV_K8S_13", "CKV_K8S_15", "CKV_K8S_38"),
}

pytestmark = [pytest.mark.xdist_group("checkov"), pytest.mark.mission_only]


def make_plain_pods() -> list[dict[str, Any]]:
    """Return the pods of every variant as plain Pods, because checkov does not inspect MPIJobs."""
    plain = []
    for name, more in VARIANTS.items():
        for piece in render_objects(**more):
            spec = piece.get("spec", {})
            templates = [replica_spec["template"] for replica_spec in spec.get("mpiReplicaSpecs", {}).values()] + [
                spec.get("template")
            ]
            for template in filter(None, templates):
                role = template["metadata"]["labels"]["gpumpi.io/role"]
                metadata = {"name": f"{name}-{role}", "namespace": piece["metadata"]["namespace"]}
                plain.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]})
    return plain


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return scan_manifests(make_plain_pods(), tmp_path_factory.mktemp("jobs"))


def test_pods_of_every_job_kind_are_scanned() -> None:
    roles = {pod["metadata"]["name"].rpartition("-")[2] for pod in make_plain_pods()}
    assert roles == {"launcher", "worker", "setup"} and len(make_plain_pods()) > 15


def test_checkov_finds_only_documented_exceptions(report: Report) -> None:
    assert EXCEPTIONS.find_unexplained(report) == set()


def test_checkov_runs_the_expected_checks(report: Report) -> None:
    assert report.passed >= MUST_BE_JUDGED


def test_every_checkov_exception_is_needed_and_has_a_reason(report: Report) -> None:
    assert EXCEPTIONS.find_unneeded(report) == []


def test_checkov_detects_planted_faults(tmp_path: Path) -> None:
    pod = make_plain_pods()[0]
    pod["spec"]["containers"][0]["securityContext"] = {"privileged": True}
    pod["spec"]["hostNetwork"] = True
    assert {"CKV_K8S_16", "CKV_K8S_19", "CKV_K8S_20"} <= {finding.check for finding in scan_manifests([pod], tmp_path).failures}
