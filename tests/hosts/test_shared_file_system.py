"""All nodes of an EC2 cluster mount its file system: one that `pulumi up` creates, or an existing one in the stack
file."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from localcloud.instance import LocalCloud
from localcloud.stack import LocalStack
from testkit.waiting import wait_while
from tests.hosts.cluster import ROOT, find_leftovers

pytestmark = [pytest.mark.xdist_group("hosts"), pytest.mark.mission_only]

BUCKET = "hosts-data-sets"
EXISTING = {
    "gpumpi:network": {
        "vpcId": "vpc-0123456789abcdef0",
        "subnetIds": ["subnet-0aaaaaaaaaaaaaaaa", "subnet-0bbbbbbbbbbbbbbbb"],
    },
    "gpumpi:storage": {
        "efs": {"fileSystemId": "fs-0123456789abcdef0", "mountPath": "/data"},
        "fsx": {"deployment": "SCRATCH_2", "dataRepository": {"path": f"s3://{BUCKET}"}},
    },
}
NEW = {"gpumpi:storage": {"efs": {"mountPath": "/data"}}}
WRITE = "hostname >/data/$(hostname)"


@dataclass(frozen=True)
class Deployed:
    """A stack with a head node and one worker, and the SSH user's key."""

    stack: LocalStack
    key: Path

    def cluster(self, verb: str, *options: str) -> str:
        """Run `scripts/cluster VERB ...` and return its output."""
        where = ("--stack", self.stack.name, "--config-dir", str(self.stack.project), "--identity", str(self.key))
        done = subprocess.run(
            [sys.executable, str(ROOT / "scripts" / "cluster"), verb, *where, *options],
            env=self.stack.cloud.process_environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def deployed(skip_if_unsupported: None, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Deployed]:
    key = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "user", "-f", key], check=True)
    config: dict[str, Any] = {
        "aws:region": "us-west-2",
        "gpumpi:target": {
            "kind": "ec2",
            "headNodeType": "c7i.large",
            "openmpi": 4,
            "ssh": {"publicKeys": [key.with_suffix(".pub").read_text().strip()]},
        },
        "gpumpi:pools": [{"name": "workers", "instanceType": "c7i.large", "desiredSize": 1, "maxSize": 2}],
        **request.param,
    }
    (tmp_path / "Pulumi.efs.yaml").write_text(yaml.safe_dump({"config": config}))
    cloud = LocalCloud(tmp_path / "cloud")
    cloud.start(print, hosts=True)
    try:
        stack = LocalStack(cloud, "efs", tmp_path)
        stack.prepare()
        stack.create_prerequisites()
        up = stack.run("up")
        assert up.ok, up.output
        yield Deployed(stack, key)
    finally:
        cloud.stop()
    assert find_leftovers(cloud) == []


@pytest.mark.mission("C", "EFS")
@pytest.mark.mission("C", "outputs")
@pytest.mark.parametrize("deployed", [NEW, EXISTING], ids=["new", "existing"], indirect=True)
def test_every_node_writes_to_the_file_system_configured_in_the_stack(deployed: Deployed, request: pytest.FixtureRequest) -> None:
    outputs = deployed.stack.outputs()
    deployed.cluster("wait", "--minutes", "4")
    deployed.cluster("run", "--", "mpiexec", "-n", "2", "-N", "1", "sh", "-c", WRITE)
    folder = deployed.stack.cloud.folder / "file-systems" / outputs["fileSystemId"]
    if "existing" in request.node.name:
        assert folder.name == "fs-0123456789abcdef0"
    written = {path.name: path.read_text().strip() for path in folder.rglob("ip-*")}
    assert len(written) == 2 and all(name == text for name, text in written.items())
    assert outputs["headNodeAddress"].replace(".", "-") in " ".join(written)
    listed = deployed.cluster("run", "--", "mpiexec", "-n", "2", "-N", "1", "sh", "-c", "ls /data").split()
    assert [listed.count(name) for name in written] == [2, 2], "both nodes see both files"
    assert outputs["keyBucket"]
    if "lustreFileSystemId" in outputs:
        check_lustre(deployed)


def check_lustre(deployed: Deployed) -> None:
    """Check that both nodes mount the Lustre file system, and that files they write are exported to the bucket."""
    deployed.cluster("run", "--", "mpiexec", "-n", "2", "-N", "1", "sh", "-c", "hostname >/fsx/data/$(hostname)")
    s3 = deployed.stack.cloud.clients("us-west-2")("s3")
    keys = wait_while(
        lambda: [entry["Key"] for entry in s3.list_objects_v2(Bucket=BUCKET).get("Contents", [])],
        lambda exported: len(exported) < 2,
    )
    assert len(keys) == 2 and all(key.startswith("ip-") for key in keys)
