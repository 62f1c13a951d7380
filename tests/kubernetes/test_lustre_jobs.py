"""FSx for Lustre with `pulumi up` and `submit`: a job reads an object of the bucket, and the job's files are exported
to the bucket."""

from pathlib import Path
from typing import Any

import pytest

from localcloud.instance import LocalCloud
from localcloud.stack import LocalStack
from testkit.job_cluster import SOURCE, build_python_command, get_job_cluster, write_job_file
from testkit.projects import create_client
from testkit.waiting import wait_until

pytestmark = [pytest.mark.xdist_group("kubernetes"), pytest.mark.mission_only]

STACK, BUCKET, NAME = "lustre", "gpumpi-training", "reads"
READS = """
import os, pathlib
rank, data = os.environ["OMPI_COMM_WORLD_RANK"], pathlib.Path("/fsx/data")
seen = (data / "text.txt").read_text()
(data / f"seen-{rank}.txt").write_text(f"rank {rank} read {seen} on {os.environ['GPUMPI_NODE']}")
"""


def test_ranks_on_two_nodes_read_an_object_and_their_files_are_exported_to_the_bucket(
    own_cloud: LocalCloud, tmp_path: Path
) -> None:
    own_cloud.start(print, kubernetes=True)
    s3 = create_client(own_cloud, "s3")
    s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "us-west-2"})
    s3.put_object(Bucket=BUCKET, Key="sets/text.txt", Body=b"an object")
    stack = LocalStack(own_cloud, STACK, SOURCE)
    stack.prepare()
    up = stack.run("up")
    assert up.ok, up.output
    cluster = get_job_cluster(own_cloud, STACK, tmp_path)

    done = cluster.cluster("submit", write_job_file(tmp_path, NAME, command=build_python_command(READS)), "--follow")
    assert done.code == 0, done.err

    def read_exported_files() -> dict[str, str]:
        listed: list[dict[str, Any]] = s3.list_objects_v2(Bucket=BUCKET, Prefix="sets/seen-").get("Contents", [])
        return {item["Key"]: s3.get_object(Bucket=BUCKET, Key=item["Key"])["Body"].read().decode() for item in listed}

    texts = wait_until(read_exported_files, lambda contents: len(contents) == 2)
    nodes = {texts[f"sets/seen-{rank}.txt"].removeprefix(f"rank {rank} read an object on ") for rank in (0, 1)}
    assert nodes == {node["metadata"]["name"] for node in cluster.list_objects("nodes", "gpumpi.io/pool=train")}
