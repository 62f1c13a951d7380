"""`scripts/cluster local status` shows failures of the local cloud's own components."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.error import URLError

import pytest

from cli.local import local_commands
from localcloud import instance
from localcloud.control import Control
from localcloud.instance import LocalCloud
from localcloud.keys import Key
from localcloud.processes import Server

PROBLEM = "the clock of the local AWS failed: no time"


class Running(Server):
    """Server with a live process."""

    def find_process(self) -> Any:
        return SimpleNamespace()


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> LocalCloud:
    """Local cloud with its three servers running."""
    servers = [Running(name, 1, 0.0, 80, "/log") for name in instance.SERVERS]
    monkeypatch.setattr(LocalCloud, "servers", lambda _: servers)
    Key.create().save(tmp_path / instance.KEY_FILE)
    return LocalCloud(tmp_path)


def set_problems(monkeypatch: pytest.MonkeyPatch, *problems: str) -> None:
    monkeypatch.setattr(Control, "problems", lambda _: list(problems))


def test_status_of_a_local_cloud_without_failures_is_ok(cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch) -> None:
    set_problems(monkeypatch)
    assert local_commands.status(cloud.folder) == 0


def test_failed_component_is_shown_and_status_fails(
    cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    set_problems(monkeypatch, PROBLEM)
    assert local_commands.status(cloud.folder) == 1
    assert PROBLEM in " ".join(capsys.readouterr().err.split())
    assert local_commands.status(cloud.folder, as_json=True) == 1
    assert json.loads(capsys.readouterr().out)["problems"] == [PROBLEM]


def test_unresponsive_server_is_a_failure(
    cloud: LocalCloud, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse_connection(_: Control) -> list[str]:
        raise URLError("connection refused")

    monkeypatch.setattr(Control, "problems", refuse_connection)
    assert local_commands.status(cloud.folder) == 1
    assert "the aws server does not answer" in capsys.readouterr().err
