"""A Capacity Block with real nodes: purchase, start, drain with the checkpoint signal, and end."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from localcloud.instance import LocalCloud
from localcloud.processes import ROOT
from localcloud.stack import LocalStack
from testkit.eks_clusters import REGION, Account, Running
from testkit.node_groups import build_pod, create_pods, is_ready, wait_for_phase
from testkit.waiting import wait_while

pytestmark = pytest.mark.xdist_group("kubernetes")

NAME = "block"
FILE = """\
config:
  aws:region: us-west-2
  gpumpi:target: {kind: eks, endpointAccess: {publicCidrs: [203.0.113.0/24]}, system: {desiredSize: 1}}
  gpumpi:storage: {efs: none}
  gpumpi:platform: {install: false, autoscaler: false}
  gpumpi:pools:
    - {name: train, instanceType: p5.48xlarge, maxSize: 1}
"""
SAVED = 7
"""Exit code with which a job reports a saved checkpoint."""
CHECKPOINTS = f"import signal; signal.signal(signal.SIGTERM, lambda *_: exit({SAVED})); signal.pause()"


@pytest.mark.mission_only
def test_jobs_save_a_checkpoint_before_their_capacity_block_ends(own_cloud: LocalCloud, tmp_path: Path) -> None:
    (tmp_path / f"Pulumi.{NAME}.yaml").write_text(FILE)
    own_cloud.start(print, kubernetes=True)
    start, end = _buy_block(own_cloud, tmp_path)
    stack = LocalStack(own_cloud, NAME, tmp_path)
    stack.prepare()
    up = stack.run("up")
    assert up.ok, up.output
    cluster = Running(Account(own_cloud), f"gpumpi-{NAME}")
    assert _list_nodes(cluster) == []

    own_cloud.control().advance_clock(start + timedelta(minutes=1))
    (node,) = wait_while(lambda: _list_nodes(cluster), lambda nodes: not nodes or not all(map(is_ready, nodes)))
    job = build_pod("job", CHECKPOINTS, node=node, terminationGracePeriodSeconds=60)
    with create_pods(cluster, job):
        wait_for_phase(cluster, "job", "Running")
        watched = cluster.api.watch("/api/v1/namespaces/default/pods", fieldSelector="metadata.name=job")
        next(watched)
        own_cloud.control().advance_clock(end - timedelta(minutes=44))
        last = next(event["object"] for event in watched if event["type"] == "DELETED")
    conditions = {condition["type"]: condition.get("reason") for condition in last["status"]["conditions"]}
    assert conditions["DisruptionTarget"] == "EvictionByEvictionAPI"
    assert last["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == SAVED
    wait_while(lambda: _list_nodes(cluster), bool)

    own_cloud.control().advance_clock(end + timedelta(minutes=1))
    destroy = stack.run("destroy")
    assert destroy.ok, destroy.output


def _buy_block(cloud: LocalCloud, folder: Path) -> tuple[datetime, datetime]:
    """Buy a Capacity Block that starts tomorrow or later. Return the block's start and end."""
    later = f"{datetime.now(UTC) + timedelta(days=1):%Y-%m-%d}"
    offers = _run_cli(cloud, folder, "capacity", "find", "p5.48xlarge", "--regions", REGION, "--start", later)
    block = next(choice for choice in offers["choices"] if choice["kind"] == "block")
    bought = _run_cli(cloud, folder, "capacity", "reserve", block["id"], "-s", NAME, "--config-dir", str(folder), "--yes")
    assert bought["state"] == "scheduled"
    return datetime.fromisoformat(bought["start"]), datetime.fromisoformat(bought["end"])


def _run_cli(cloud: LocalCloud, folder: Path, *arguments: str) -> Any:
    environment = cloud.process_environment() | {"XDG_CACHE_HOME": str(folder / "cache")}
    command = [sys.executable, str(ROOT / "scripts" / "cluster"), *arguments, "--json"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def _list_nodes(cluster: Running) -> list[dict[str, Any]]:
    nodes: list[dict[str, Any]] = cluster.api.get("/api/v1/nodes", labelSelector="gpumpi.io/pool=train")["items"]
    return nodes
