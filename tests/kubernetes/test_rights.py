"""Kubernetes permissions of job pods."""

from pathlib import Path

import pytest

from testkit.job_cluster import NAMESPACE, JobCluster, build_python_command, write_job_file

pytestmark = pytest.mark.xdist_group("jobs")

ACTIONS = [
    *(("get", "pods"), ("list", "pods"), ("delete", "pods"), ("create", "pods"), ("create", "pods/exec")),
    *(("get", "jobs"), ("get", "secrets"), ("list", "configmaps"), ("list", "pods", "-n", "kube-system")),
]


@pytest.mark.mission("A", "rights")
def test_job_pods_have_no_service_account_token_and_no_permissions(job_cluster: JobCluster, tmp_path: Path) -> None:
    file = write_job_file(
        tmp_path, "rights", launcher="standalone", command=build_python_command("import signal; signal.pause()")
    )
    try:
        assert job_cluster.cluster("submit", file).code == 0
        specs = [pod["spec"] for pod in job_cluster.list_objects("pods", "gpumpi.io/job=rights")]
        assert specs and not any(spec["automountServiceAccountToken"] for spec in specs)
        (account,) = {spec["serviceAccountName"] for spec in specs}
        user = f"system:serviceaccount:{NAMESPACE}:{account}"
        answers = {job_cluster.kubectl("auth", "can-i", "-n", NAMESPACE, *words, "--as", user).out.strip() for words in ACTIONS}
        assert answers == {"no"}
    finally:
        job_cluster.cluster("cancel", "rights")
