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

RUNS: dict[str, Any] = {"metadata": {}, "status": {"phase": "Running"}}
GOES: dict[str, Any] = {"metadata": {"deletionTimestamp": "2026-11-22T00:00:00Z"}, "status": {"phase": "Running"}}
ENDED: dict[str, Any] = {"metadata": {}, "status": {"phase": "Succeeded"}}
LAUNCHER, WORKERS = "batch.kubernetes.io/job-name=mnist-launcher", "gpumpi.io/job=mnist,gpumpi.io/role=worker"


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    folder = tmp_path / "mpi-jobs.mnist"
    folder.mkdir()
    (folder / "id_rsa").write_text("private")
    return folder


class Api:
    """Stub that returns scripted pod lists for each label selector and repeats the last list. Only `sleep` advances
    time.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **looks: "list[Any]") -> None:
        self._looks, self._now, self.signal_at = looks, 0.0, -1.0
        monkeypatch.setattr(controller, "pods", self.pods)
        monkeypatch.setattr(controller.time, "monotonic", lambda: self._now)
        monkeypatch.setattr(controller.time, "sleep", self.sleep)

    def pods(self, namespace: str, labels: str) -> "list[dict[str, Any]]":
        assert namespace == "mpi-jobs"
        looks = self._looks["workers" if labels == WORKERS else "launcher"]
        seen = looks.pop(0) if len(looks) > 1 else looks[0]
        if isinstance(seen, OSError):
            raise seen
        return list(seen)

    def sleep(self, seconds: float) -> None:
        self._now += seconds
        if 0 <= self.signal_at <= self._now:
            self.signal_at = -1.0
            os.kill(os.getpid(), signal.SIGTERM)


def denied(code: int) -> OSError:
    return controller.urllib.error.HTTPError("https://kubernetes", code, "no", {}, None)  # type: ignore[arg-type]


def run(keys: Path) -> None:
    controller.main("mpi-jobs", "mnist-launcher", 2, str(keys), WORKERS)


def test_the_keys_go_when_the_launcher_has_ended(keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Api(monkeypatch, launcher=[[RUNS], denied(503), [RUNS], [ENDED]], workers=[[RUNS]])
    run(keys)
    assert not keys.exists()


TAKEN_AWAY: dict[str, dict[str, list[Any]]] = {
    "workers are being deleted": {"launcher": [[RUNS]], "workers": [[RUNS, GOES], [GOES, GOES]]},
    "workers are deleted": {"launcher": [[GOES]], "workers": [[]]},
    "its permissions are revoked": {"launcher": [[RUNS]], "workers": [[RUNS], denied(403)]},
    "its service account is deleted": {"launcher": [[RUNS]], "workers": [denied(401)]},
    "no launcher is left": {"launcher": [[RUNS], []], "workers": [[RUNS]]},
}


@pytest.mark.parametrize("looks", TAKEN_AWAY.values(), ids=TAKEN_AWAY)
def test_the_keys_go_when_the_job_is_taken_away(keys: Path, monkeypatch: pytest.MonkeyPatch, looks: dict[str, list[Any]]) -> None:
    api = Api(monkeypatch, **{name: list(each) for name, each in looks.items()})
    api.signal_at = 1.0
    with pytest.raises(SystemExit) as ended:
        run(keys)
    assert ended.value.code == 143
    assert not keys.exists()


STAYS: dict[str, dict[str, list[Any]]] = {
    "the other pods run": {"launcher": [[RUNS]], "workers": [[RUNS, RUNS]]},
    "its node is drained together with the launcher": {"launcher": [[RUNS], [GOES], [], [RUNS]], "workers": [[RUNS, GOES]]},
    "the API server is unavailable": {"launcher": [[RUNS]], "workers": [denied(503)]},
}


@pytest.mark.parametrize("looks", STAYS.values(), ids=STAYS)
def test_the_keys_stay_when_the_keeper_alone_has_to_go(
    keys: Path, monkeypatch: pytest.MonkeyPatch, looks: dict[str, list[Any]]
) -> None:
    api = Api(monkeypatch, **{name: list(each) for name, each in looks.items()})
    api.signal_at = 1.0
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
