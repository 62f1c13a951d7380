"""Jobs access the buckets in `platform.jobPolicies` through their namespace's IAM role, without AWS access keys."""

from pathlib import Path

import pytest

from testkit.eks_clusters import REGION
from testkit.job_cluster import JobCluster, build_python_command, write_job_file

pytestmark = pytest.mark.xdist_group("jobs")

BUCKET = "gpumpi-checkpoints"
"""Bucket whose folder `team` jobs may read and write: see tests/kubernetes/data/Pulumi.jobs.yaml."""
PROGRAM = """
import boto3
from mpi4py import MPI
if MPI.COMM_WORLD.rank == 0:
    s3 = boto3.client("s3")
    def attempt(name, **options):
        try:
            getattr(s3, name)(Bucket="gpumpi-checkpoints", **options)
            print(name, *options.values(), "allowed", flush=True)
        except Exception as error:
            print(name, *options.values(), type(error).__name__, str(error).partition(" when")[0], flush=True)
    attempt("put_object", Key="team/step-1")
    attempt("get_object", Key="team/step-1")
    attempt("list_objects_v2", Prefix="team/")
    attempt("put_object", Key="other/step-1")
    attempt("get_object", Key="other/secret")
    attempt("list_objects_v2", Prefix="other/")
"""
REFUSED = "AccessDenied An error occurred (AccessDenied)"


@pytest.mark.mission("D", "credentials")
def test_a_job_can_access_only_the_listed_path_of_a_bucket(job_cluster: JobCluster, tmp_path: Path) -> None:
    s3 = job_cluster.cloud.clients(REGION)("s3")
    s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_object(Bucket=BUCKET, Key="other/secret", Body=b"secret")
    file = write_job_file(tmp_path, "buckets", image="openmpi-boto3:5", command=build_python_command(PROGRAM), perNode=1)
    try:
        done = job_cluster.cluster("submit", file, "--follow", "--env", "TEAM=vision", "--set", "maxRestarts=0")
        assert done.code == 0, done.out + done.err
        assert [line for line in done.out.splitlines() if "_object" in line] == [
            "put_object team/step-1 allowed",
            "get_object team/step-1 allowed",
            "list_objects_v2 team/ allowed",
            f"put_object other/step-1 {REFUSED}",
            f"get_object other/secret {REFUSED}",
            f"list_objects_v2 other/ {REFUSED}",
        ], done.out + done.err
    finally:
        job_cluster.cluster("cancel", "buckets")
        for key in ("team/step-1", "other/secret"):
            s3.delete_object(Bucket=BUCKET, Key=key)
        s3.delete_bucket(Bucket=BUCKET)
