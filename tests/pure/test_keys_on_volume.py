"""Keys of a job on a volume: pods share one pair, and the last pod that ends deletes it."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from infra.jobs.in_pods import read_source

pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not on PATH")
FILES = ("id_rsa", "id_rsa.pub", "authorized_keys")


class Pod:
    """Home directory of a pod, and the scripts that run in it."""

    def __init__(self, tmp_path: Path, name: str) -> None:
        self.name, self.home, self.folder = name, tmp_path / name, tmp_path / "volume" / "ssh" / "mpi-jobs.mnist"
        (self.home / ".ssh").mkdir(parents=True, exist_ok=True)

    def start(self) -> "subprocess.Popen[bytes]":
        script, arguments = read_source("keys_on_volume.sh"), [self.folder, self.home / ".ssh", self.name]
        return subprocess.Popen(["/bin/sh", "-c", script, "keys", *map(str, arguments)])

    def run(self, script: str) -> int:
        """Run the pod's container. The pod ends when `script` ends."""
        whole = read_source("keys_in_use.sh") + "set -eu\n" + script
        return subprocess.run(["/bin/sh", "-c", whole], env={**os.environ, "HOME": str(self.home)}, check=False).returncode

    def read(self, file: str) -> bytes:
        return (self.home / ".ssh" / file).read_bytes()


def make_pods(tmp_path: Path, *names: str) -> list[Pod]:
    """Return pods that have their keys."""
    pods = [Pod(tmp_path, name) for name in names]
    assert [process.wait() for process in [pod.start() for pod in pods]] == [0] * len(pods)
    return pods


def test_pods_that_start_at_the_same_time_share_one_key_pair(tmp_path: Path) -> None:
    pods = make_pods(tmp_path, *(f"mnist-worker-{number}" for number in range(8)))
    folder = pods[0].folder
    for name in FILES:
        assert {pod.read(name) for pod in pods} == {(folder / name).read_bytes()}
    assert [oct((pod.home / ".ssh" / "id_rsa").stat().st_mode) for pod in pods] == ["0o100600"] * len(pods)
    assert [path.name for path in folder.parent.iterdir()] == [folder.name], "a temporary folder is left"


def test_last_pod_to_end_deletes_the_keys(tmp_path: Path) -> None:
    *first_pods, last = make_pods(tmp_path, "launcher", "mnist-worker-0", "mnist-worker-1")
    assert [pod.run("exit 3") for pod in first_pods] == [3, 3]
    assert (last.folder / "id_rsa").exists()
    assert last.run("release_keys; release_keys") == 0
    assert list(last.folder.parent.iterdir()) == []


def test_pod_that_released_its_keys_keeps_the_keys_of_the_next_run(tmp_path: Path) -> None:
    (launcher,) = make_pods(tmp_path, "launcher")
    assert launcher.run('release_keys; mkdir -p "${user%/*}"; touch "$user"') == 0  # its trap runs after the next run has begun
    assert (launcher.folder / "users" / "launcher").exists()


def test_a_replaced_pod_gets_the_same_keys_while_another_pod_runs(tmp_path: Path) -> None:
    launcher, worker = make_pods(tmp_path, "launcher", "mnist-worker-0")
    private = worker.read("id_rsa")
    worker.run("exit 143")
    (replacement,) = make_pods(tmp_path, "mnist-worker-0")
    assert replacement.read("id_rsa") == private
    launcher.run("exit 0")
    assert replacement.folder.exists()
    replacement.run("exit 0")
    assert not replacement.folder.exists()


def test_keys_of_a_killed_pod_are_deleted_after_its_replacement_ends(tmp_path: Path) -> None:
    make_pods(tmp_path, "mnist-worker-0")
    (replacement,) = make_pods(tmp_path, "mnist-worker-0")
    replacement.run("exit 0")
    assert not replacement.folder.exists()


def test_restarted_container_reuses_the_keys(tmp_path: Path) -> None:
    launcher, worker = make_pods(tmp_path, "launcher", "mnist-worker-0")
    worker.run("exit 1")
    worker.run("[ -e $user ]")
    assert [path.name for path in (worker.folder / "users").iterdir()] == ["launcher"]
    launcher.run("exit 0")
    assert not worker.folder.exists()


def test_a_pod_replaces_keys_whose_deletion_was_interrupted(tmp_path: Path) -> None:
    (worker,) = make_pods(tmp_path, "mnist-worker-0")
    private = worker.read("id_rsa")
    shutil.rmtree(worker.folder / "users")
    script = read_source("keys_on_volume.sh").replace("sleep 0.2", ":")
    command = ["/bin/sh", "-c", script, "keys", str(worker.folder), str(worker.home / ".ssh"), worker.name]
    subprocess.run(command, check=True, timeout=60)
    assert worker.read("id_rsa") == (worker.folder / "id_rsa").read_bytes() != private


def test_the_log_is_completed_after_the_keys_were_released(tmp_path: Path) -> None:
    (worker,) = make_pods(tmp_path, "mnist-worker-0")
    mark = tmp_path / "mark"
    assert worker.run(f"finish_log() {{ : > {mark}; }}; exit 5") == 5
    assert mark.exists() and not worker.folder.exists()
