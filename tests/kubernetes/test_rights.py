"""Kubernetes permissions of job pods."""

from pathlib import Path

import pytest

from testkit.job_cluster import NAMESPACE, JobCluster, job_file, python

pytestmark = pytest.mark.xdist_group("jobs")

ASKED = [
    (("get", "pods"), "yes"),
    (("list", "pods"), "yes"),
    (("watch", "pods"), "yes"),
    (("delete", "pods"), "no"),
    (("create", "pods"), "no"),
    (("create", "pods/exec"), "no"),
    (("get", "secrets"), "no"),
    (("list", "configmaps"), "no"),
    (("list", "pods", "-n", "kube-system"), "no"),
]


@pytest.mark.mission("A", "rights")
def test_a_jobs_own_account_reads_pods_of_its_namespace_and_nothing_else(job_cluster: JobCluster, tmp_path: Path) -> None:
    file = job_file(tmp_path, "rights", launcher="standalone", command=python("import signal; signal.pause()"))
    try:
        assert job_cluster.cluster("submit", file).code == 0
        (account,) = job_cluster.objects("serviceaccounts", "gpumpi.io/job=rights")
        who = f"system:serviceaccount:{NAMESPACE}:{account['metadata']['name']}"
        told = {
            words: job_cluster.kubectl("auth", "can-i", "-n", NAMESPACE, *words, "--as", who).out.strip() for words, _ in ASKED
        }
        assert told == dict(ASKED)
    finally:
        job_cluster.cluster("cancel", "rights")
