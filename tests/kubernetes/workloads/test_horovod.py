"""Horovod on two nodes trains on data from a bucket, saves checkpoints, and resumes after it is killed."""

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from localcloud import workloads
from testkit.eks_clusters import REGION
from testkit.job_cluster import NAMESPACE, JobCluster
from tests.kubernetes.workloads.submitting import cancel_on_exit, run_job, write_variant

pytestmark = [pytest.mark.xdist_group("jobs"), pytest.mark.mission_only]

NAME, BUCKET = "horovod-mnist", "gpumpi-digits"
EPOCH = re.compile(r"epoch (\d+): loss \d+\.\d{4}, accuracy on unseen digits \d\.\d{4}$", re.MULTILINE)


@contextmanager
def create_data_set(cluster: JobCluster, bucket: str = BUCKET) -> Iterator[None]:
    """Create a bucket with the digits data set."""
    s3 = cluster.cloud.clients(REGION)("s3")
    s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.upload_file(str(workloads.ensure_packages(print) / "digits.csv.gz"), bucket, "digits.csv.gz")
    try:
        yield
    finally:
        s3.delete_object(Bucket=bucket, Key="digits.csv.gz")
        s3.delete_bucket(Bucket=bucket)


def write_job_file(
    folder: Path, *options: str, data: str = f"s3://{BUCKET}/digits.csv.gz", **changes: object
) -> tuple[Path, str]:
    """Return a copy of the workload's job file that uses the test's data set, and the name of the job's folder on the
    volume.
    """
    file, name = write_variant(folder, NAME, options, slots=1, **changes), f"{NAME}-{secrets.token_hex(3)}"
    text = file.read_text().replace(f"/shared/{NAME}", f"/shared/{name}").replace("s3://datasets/digits.csv.gz", data)
    file.write_text(text)
    return file, name


@pytest.mark.mission("D", "horovod-mnist")
@pytest.mark.mission("D", "checkpoints")
@pytest.mark.mission("D", "credentials")
@pytest.mark.mission("D", "pre-train step")
def test_a_killed_job_resumes_from_its_checkpoint_and_completes_all_epochs(job_cluster: JobCluster, tmp_path: Path) -> None:
    file, folder = write_job_file(tmp_path, "--hold=2")
    lines: list[str] = []
    with (
        create_data_set(job_cluster),
        cancel_on_exit(job_cluster, NAME),
        job_cluster.run_in_background("submit", str(file), "--follow") as process,
    ):
        assert process.stdout is not None and process.stderr is not None
        for line in process.stdout:
            lines.append(line.rstrip())
            if "epoch 2:" in line:
                (worker,) = [pod for pod in job_cluster.pods(NAME, "worker") if pod["metadata"]["name"].endswith("-1")]
                name, namespace = worker["metadata"]["name"], worker["metadata"]["namespace"]
                assert job_cluster.kubectl("delete", "pod", name, "-n", namespace, "--grace-period=1", "--wait=false").code == 0
        code = process.wait()
        errors = process.stderr.read()
        launched = job_cluster.pods(NAME, "launcher")[0]["spec"]["containers"][0]["command"]
    whole = "\n".join([*lines, errors])
    assert code == 0, whole
    assert [int(epoch) for epoch in EPOCH.findall(whole)] == [1, 2, 3, 4, 5, 6], whole
    assert re.search(r"resuming from \S+/checkpoints/ckpt-2: 2 epochs were completed", whole), whole
    verdict = re.search(r"2 ranks on 2 hosts, 6 epochs, .* s: accuracy (\S+), weights equal on all ranks", whole)
    assert verdict and float(verdict[1]) > 0.9, whole
    hosts = f"{NAME}-worker-0.{NAME}.{NAMESPACE}.svc:1,{NAME}-worker-1.{NAME}.{NAMESPACE}.svc:1"
    assert launched[launched.index("horovodrun") :][1:5] == ["-np", "2", "-H", hosts]
    (left,) = job_cluster.cloud.folder.glob(f"file-systems/*/**/{folder}")
    assert {"train.py", "data", "checkpoints", "logs"} <= {path.name for path in left.iterdir()}
    assert (left / "checkpoints" / "checkpoint").exists() and list((left / "logs").glob("events.out.tfevents.*"))


@pytest.mark.mission("D", "credentials")
@pytest.mark.parametrize(
    ("bucket", "file", "status"),
    [(BUCKET, "missing.csv.gz", 404), ("gpumpi-unlisted", "digits.csv.gz", 403)],
    ids=["missing data set", "bucket that the stack does not list"],
)
def test_unreadable_training_data_ends_the_job_with_an_explanation(
    job_cluster: JobCluster, tmp_path: Path, bucket: str, file: str, status: int
) -> None:
    address = f"s3://{bucket}/{file}"
    path, _ = write_job_file(tmp_path, data=address, maxRestarts=0)
    with create_data_set(job_cluster, bucket):
        done = run_job(job_cluster, path)
    assert done.code == 1
    assert f"{address}: cannot be read: An error occurred ({status})" in done.out
    assert "Check the address, and list the bucket in platform.jobPolicies of the stack" in done.out
