"""EC2 interrupts a Spot Instance or recommends rebalancing: the rank saves, and the job resumes on another node."""

from pathlib import Path

import pytest

from localcloud.instance import LocalCloud
from localcloud.kubernetes.nodes import limits
from localcloud.processes import ROOT
from localcloud.stack import LocalStack
from testkit.job_cluster import build_python_command, get_job_cluster, write_job_file
from testkit.waiting import wait_until

pytestmark = [pytest.mark.xdist_group("kubernetes"), pytest.mark.mission_only]

STACKS = ROOT / "bench" / "stacks"
STACK = "heal"
"""Stack with two Spot Instances."""
NAME = "spot"
SAVES = """
import os, pathlib, signal
saved, node = pathlib.Path("/shared/spot"), os.environ["GPUMPI_NODE"]
if saved.exists():
    print("resumes on", node, "after", saved.read_text(), flush=True)
    raise SystemExit(0)
def save(number, _):
    saved.write_text(f"{signal.Signals(number).name} on {node}")
    os._exit(143)
signal.signal(signal.SIGUSR1, save)
print("trains", flush=True)
while True:
    signal.pause()
"""
"""The rank saves only after the job's checkpoint signal, not after SIGTERM."""


@pytest.mark.parametrize("notice", ["--spot-notice", "--rebalance"])
def test_a_rank_saves_before_its_spot_node_ends_and_the_job_resumes_on_another_node(
    own_cloud: LocalCloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, notice: str
) -> None:
    monkeypatch.setenv(limits.VARIABLE, "gpu=4")
    own_cloud.start(print, kubernetes=True)
    stack = LocalStack(own_cloud, STACK, STACKS)
    stack.prepare()
    up = stack.run("up")
    assert up.ok, up.output
    cluster = get_job_cluster(own_cloud, STACK, tmp_path, STACKS)

    more = {"workers": 1, "maxRestarts": 0, "checkpointSignal": "SIGUSR1"}
    assert cluster.cluster("submit", write_job_file(tmp_path, NAME, command=build_python_command(SAVES), **more)).code == 0
    wait_until(lambda: cluster.cluster("logs", NAME).out.splitlines(), lambda lines: "trains" in lines)
    (worker,) = cluster.pods(NAME, "worker")
    node = worker["spec"]["nodeName"]
    assert cluster.cluster("local", "break", node, notice, "--home", str(own_cloud.folder)).code == 0

    (record,) = wait_until(
        lambda: cluster.cluster("jobs", "--all", "--json").json,
        lambda rows: bool(rows) and rows[0]["phases"][-1]["phase"] in ("Succeeded", "Failed"),
    )
    said = cluster.cluster("logs", NAME).out
    assert (record["disruptions"], [attempt["outcome"] for attempt in record["attempts"]]) == (1, ["Disrupted", "Succeeded"]), (
        said
    )
    (resumed,) = [line for line in said.splitlines() if line.startswith("resumes on")]
    assert resumed.endswith(f"after SIGUSR1 on {node}")
    assert resumed.split()[2] != node
