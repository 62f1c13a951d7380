"""With `platform.jobLogs: cloudwatch`, pods log to CloudWatch Logs, where `logs` finds the log lines after the pods are
gone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from localcloud.stack import LocalStack
from testkit.eks_clusters import REGION
from testkit.job_cluster import NAMESPACE, SOURCE, STACK, JobCluster, build_python_command, write_job_file

pytestmark = [pytest.mark.xdist_group("jobs"), pytest.mark.usefixtures("job_cleanup")]

GROUP = f"/gpumpi/{STACK}/jobs"
PROGRAM = """
import boto3
from mpi4py import MPI
rank = MPI.COMM_WORLD.rank
for step in range(3):
    print("rank", rank, "step", step, flush=True)
logs = boto3.client("logs", region_name="us-west-2")
for action, stream in [("put_log_events", "mpi-jobs/kept/forged/another-pod"), ("get_log_events", "mpi-jobs/kept/x/another-pod")]:
    more = {"logEvents": [{"timestamp": 1, "message": "forged"}]} if action == "put_log_events" else {}
    try:
        getattr(logs, action)(logGroupName="/gpumpi/jobs/jobs", logStreamName=stream, **more)
        print(action, "allowed", flush=True)
    except logs.exceptions.ClientError as error:
        print(action, error.response["Error"]["Code"], flush=True)
"""


def run_up(cluster: JobCluster, folder: Path) -> None:
    stack = LocalStack(cluster.cloud, STACK, folder)
    stack.prepare()
    result = stack.run("up")
    assert result.ok, result.output[-4000:]


@pytest.fixture
def logs_in_cloudwatch(job_cluster: JobCluster, tmp_path: Path) -> Iterator[None]:
    name = f"Pulumi.{STACK}.yaml"
    changed = (SOURCE / name).read_text().replace("platform:\n", "platform:\n    jobLogs: cloudwatch\n")
    (tmp_path / name).write_text(changed)
    run_up(job_cluster, tmp_path)
    yield
    run_up(job_cluster, SOURCE)
    groups = job_cluster.cloud.clients(REGION)("logs").describe_log_groups(logGroupNamePrefix=GROUP)["logGroups"]
    assert groups == []


def test_logs_outlive_pods_in_cloudwatch_and_pods_write_only_their_own_logs(
    job_cluster: JobCluster, logs_in_cloudwatch: None, tmp_path: Path
) -> None:
    file = write_job_file(
        tmp_path, "kept", image="openmpi-boto3:5", command=build_python_command(PROGRAM), setup=["echo", "prepared"], perNode=1
    )
    done = job_cluster.cluster("submit", file, "--follow", "--set", "maxRestarts=0")
    assert done.code == 0, done.out + done.err
    expected = {f"rank {rank} step {step}" for rank in (0, 1) for step in range(3)}
    refused = {"put_log_events AccessDeniedException", "get_log_events AccessDeniedException"}
    assert expected | refused <= set(done.out.splitlines()), done.out

    assert job_cluster.cluster("cancel", "kept").code == 0
    assert job_cluster.find_leftovers("kept") == []
    logs = job_cluster.cluster("logs", "kept")
    assert logs.code == 0 and set(logs.out.splitlines()) >= expected | refused, logs.out + logs.err
    every = job_cluster.cluster("logs", "kept", "--all", "--json").json
    assert every["phase"] == "Deleted" and {"launcher", "worker-0", "worker-1"} <= set(every["pods"])
    assert any("prepared" in lines for lines in every["pods"].values())

    streams = job_cluster.cloud.clients(REGION)("logs").describe_log_streams(logGroupName=GROUP)["logStreams"]
    assert {stream["logStreamName"].rsplit("/", 2)[0] for stream in streams} == {f"{NAMESPACE}/kept"}
