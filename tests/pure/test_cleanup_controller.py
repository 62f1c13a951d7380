"""A job's cleanup controller: how it detects the job's end, and when it deletes keys on a volume.

The controller runs as in a pod, except that the API server is a stub.
"""

import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from infra.jobs.in_pods import keeper as controller

pytestmark = pytest.mark.usefixtures("restored_process")


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    folder = tmp_path / "mpi-jobs.mnist"
    folder.mkdir()
    (folder / "id_rsa").write_text("private")
    return folder


class Api:
    """Stub that answers with scripted Jobs or errors, and repeats the last one. Only `sleep` advances time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: "dict[str, Any] | OSError", signal_at: float = -1.0) -> None:
        self._answers, self._now, self._signal_at = list(answers), 0.0, signal_at
        monkeypatch.setattr(controller, "get", self.get)
        monkeypatch.setattr(controller.time, "monotonic", lambda: self._now)
        monkeypatch.setattr(controller.time, "sleep", self.sleep)

    def get(self, url: str) -> "dict[str, Any]":
        assert url.endswith("/apis/batch/v1/namespaces/mpi-jobs/jobs/mnist-launcher")
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, OSError):
            raise answer
        return answer

    def sleep(self, seconds: float) -> None:
        self._now += seconds
        if 0 <= self._signal_at <= self._now:
            self._signal_at = -1.0
            os.kill(os.getpid(), signal.SIGTERM)


def error(code: int) -> OSError:
    return controller.urllib.error.HTTPError("https://kubernetes", code, "no", {}, None)  # type: ignore[arg-type]


RUNNING: dict[str, Any] = {"metadata": {}, "status": {}}
DELETED: dict[str, Any] = {"metadata": {"deletionTimestamp": "2026-11-22T00:00:00Z"}, "status": {}}
FAILED: dict[str, Any] = {"metadata": {}, "status": {"conditions": [{"type": "Failed", "status": "True"}]}}
PREVIOUS: dict[str, Any] = {**FAILED, **DELETED}


def run(keys: Path) -> None:
    controller.main("mpi-jobs", "mnist-launcher", str(keys))


@pytest.mark.parametrize("end", [FAILED, error(404)], ids=["failed", "deleted"])
def test_the_controller_ends_and_deletes_the_keys_when_the_launchers_job_has_ended(
    keys: Path, monkeypatch: pytest.MonkeyPatch, end: Any
) -> None:
    """Stacks create the launcher's Job after the cleanup controller, and the Job of the previous run may still be
    terminating.
    """
    Api(monkeypatch, PREVIOUS, error(404), error(503), error(403), RUNNING, error(403), end)
    run(keys)
    assert not keys.exists()


@pytest.mark.parametrize("answer", [DELETED, error(404), error(401), error(403)], ids=["deleting", "gone", "401", "403"])
def test_the_keys_are_deleted_with_the_job(keys: Path, monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    Api(monkeypatch, RUNNING, RUNNING, answer, signal_at=1.0)
    with pytest.raises(SystemExit) as ended:
        run(keys)
    assert ended.value.code == 143
    assert not keys.exists()


@pytest.mark.parametrize("answer", [RUNNING, error(503)], ids=["the job runs", "the API server is unavailable"])
def test_the_keys_stay_when_only_the_controllers_pod_is_deleted(keys: Path, monkeypatch: pytest.MonkeyPatch, answer: Any) -> None:
    Api(monkeypatch, RUNNING, answer, signal_at=1.0)
    with pytest.raises(SystemExit):
        run(keys)
    assert (keys / "id_rsa").exists()


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not on PATH")
def test_every_pod_takes_the_same_pair_from_the_volume_in_any_order(tmp_path: Path) -> None:
    folder, script = tmp_path / "volume" / "ssh" / "mpi-jobs.mnist", Path(controller.__file__).with_name("keys_on_volume.sh")
    owns = [tmp_path / f"pod-{number}" for number in range(8)]
    for own in owns:
        own.mkdir()
    started = [subprocess.Popen(["/bin/sh", str(script), str(folder), str(own)]) for own in owns]
    assert [process.wait() for process in started] == [0] * len(owns)
    for name in ("id_rsa", "id_rsa.pub", "authorized_keys"):
        assert {(own / name).read_bytes() for own in owns} == {(folder / name).read_bytes()}
    assert [oct((own / "id_rsa").stat().st_mode) for own in owns] == ["0o100600"] * len(owns)
    assert [path.name for path in folder.parent.iterdir()] == [folder.name], "no temporary folder may be left"
