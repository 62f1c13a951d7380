"""`scripts/cluster demo --ec2`: the lifecycle of an EC2 cluster on real hosts."""

import json
import os
import re
import signal
import subprocess
import sys
from itertools import takewhile
from pathlib import Path
from typing import Any

import psutil
import pytest

from cli.demo import ec2_demo
from localcloud.hosts import ami, capability
from localcloud.hosts.capability import Capability
from localcloud.images.recipes import read_pinned_versions
from localcloud.instance import LocalCloud
from tests.cli.checkout import Checkout, restore_sigint
from tests.hosts.cluster import find_leftovers, list_namespaces

pytestmark = pytest.mark.xdist_group("packer")  # in the same group as the AMI tests, to reuse the Open MPI that they compile

STEPS = [
    "start the local cloud",
    "build the AMI",
    "create",
    "wait until all hosts have joined",
    "check the AMI of the hosts",
    "copy the programs",
    "allreduce on four hosts",
    "train on four hosts",
    "scale down",
    "run again",
    "destroy",
    "delete the AMI",
    "check for leftovers",
    "stop the local cloud",
]


@pytest.fixture
def require_ec2_hosts() -> None:
    capabilities = capability.check_machine()
    if not capabilities.hosts:
        pytest.skip("; ".join(capabilities.missing))


def open_local_cloud(checkout: Checkout) -> LocalCloud:
    return LocalCloud(checkout.folder / ".local" / "demo-ec2")


@pytest.mark.mission_only
@pytest.mark.mission("C", "MNIST on four nodes")
@pytest.mark.mission("C", "master and workers")
def test_the_demo_trains_on_four_hosts_and_leaves_nothing_behind(require_ec2_hosts: None, checkout: Checkout) -> None:
    done = checkout.cluster("demo", "--ec2", "--json")
    assert done.returncode == 0, done.stderr
    steps = json.loads(done.stdout)
    assert [step["step"] for step in steps] == STEPS
    assert all(step["ok"] and not step["skipped"] for step in steps), steps
    assert json.loads((checkout.folder / ".local" / "demo-ec2.json").read_text()) == steps
    details = {step["step"]: step["detail"] for step in steps}
    version = read_pinned_versions()["openmpi4_debian_version"]
    built = re.fullmatch(rf"(ami-\w+): Open MPI {version}; \d+ provisioners ran, (\d+) were skipped .*", details["build the AMI"])
    assert built and int(built[2]) == len(ami.SKIPPED)
    assert details["check the AMI of the hosts"] == f"4 hosts from {built[1]}; CUDA support of their Open MPI {version}: true"
    assert "  select-openmpi\n" in done.stderr and "gpumpi-ami-build" not in done.stderr, (
        "progress names the provisioners and omits the rest of Packer's output"
    )
    assert "temporary keypair" in (checkout.folder / ".local" / "demo-ec2.log").read_text()
    assert details["wait until all hosts have joined"].startswith("4 hosts with 8 slots: ")
    assert re.fullmatch(r"allreduce of 8 ranks is right(: |, )(2 on ip-[0-9-]+(, )?){4}", details["allreduce on four hosts"])
    trained = re.fullmatch(
        r"8 ranks on 4 hosts, 10 epochs in [\d.]+ s: accuracy (0\.\d+|1\.0+), weights equal on all ranks",
        details["train on four hosts"],
    )
    assert trained and float(trained[1]) > 0.9
    epochs = [line.split() for line in done.stderr.splitlines() if re.fullmatch(r" +\d+( +\d+\.\d{4}){4}", line)]
    assert [int(epoch) for epoch, *_ in epochs] == list(range(1, 11))
    assert float(epochs[-1][1]) < float(epochs[0][1]), "the loss falls"
    assert re.fullmatch(r"allreduce of 4 ranks is right: (2 on ip-[0-9-]+(, )?){2}", details["scale down"])
    assert find_leftovers(open_local_cloud(checkout)) == []


@pytest.mark.mission_only
def test_a_demo_interrupted_during_the_packer_build_leaves_nothing_behind(require_ec2_hosts: None, checkout: Checkout) -> None:
    cloud = open_local_cloud(checkout)
    command = [sys.executable, "scripts/cluster", "demo", "--ec2"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "PULUMI_"))}
    with subprocess.Popen(
        command,
        cwd=checkout.folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,
        preexec_fn=restore_sigint,
    ) as demo:
        assert demo.stdout is not None
        try:
            said = list(takewhile(lambda line: line != "  install-python\n", demo.stdout))
            hosts = [host.instance_id for host in cloud.hosts()]
            packer = [
                process
                for process in psutil.Process(demo.pid).children(recursive=True)
                if read_process_name(process).startswith("packer")
            ]
            assert hosts and packer and list_namespaces(cloud), said
            os.killpg(demo.pid, signal.SIGINT)  # as a terminal does on ^C
            demo.communicate(timeout=480)
            assert demo.returncode != 0
        finally:
            demo.kill()
            cloud.stop()
    assert not any(process.is_running() for process in packer)
    assert find_leftovers(cloud, *hosts) == []
    assert not (checkout.folder / ".local" / "demo-ec2.json").exists()


def read_process_name(process: psutil.Process) -> str:
    """Return the process's name, or an empty string if the process has exited."""
    try:
        return process.name()
    except psutil.NoSuchProcess:
        return ""


def test_demo_without_hosts_reports_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(capability, "check_machine", lambda: Capability(("hosts need root",)))
    assert ec2_demo.Ec2Demo.run_and_report(folder=tmp_path, as_json=True) == 1
    steps: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    assert [step["step"] for step in steps] == STEPS
    assert steps[0]["detail"] == "EC2 instances exist only as API records: hosts need root"
    assert [step["step"] for step in steps if not step["skipped"]] == [STEPS[0], STEPS[-1]]
