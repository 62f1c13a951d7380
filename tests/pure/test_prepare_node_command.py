"""`scripts/cluster prepare-node` runs the node provisioner with the right arguments."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.errors import CommandError
from cli.nodes import prepare_node


@pytest.mark.skipif(sys.platform != "linux", reason="nodes run Linux")
def test_check_option_lists_requirements_and_exits_nonzero_if_any_is_missing(
    capfd: pytest.CaptureFixture[str],
) -> None:
    code = prepare_node.command(check=True, kubernetes_folder=None)
    lines = capfd.readouterr().out.splitlines()
    assert lines and all(re.match(r"(ok       |missing  .+: .+|none     )", line) for line in lines)
    assert code == any(line.startswith("missing") for line in lines)


def test_relative_kubernetes_folder_is_resolved_for_all_provisioners(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[list[Any], str]] = []

    def record_command(command: list[Any], *, env: dict[str, str], check: bool) -> "subprocess.CompletedProcess[str]":
        asked.append((command, env["KUBERNETES_FOLDER"]))
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(prepare_node.sys, "platform", "linux")
    monkeypatch.setattr(prepare_node.subprocess, "run", record_command)
    monkeypatch.chdir(tmp_path)
    assert prepare_node.command(check=False, kubernetes_folder=Path("programs")) == 0
    assert asked == [([prepare_node.PROVISIONER], str(tmp_path / "programs"))]


def test_other_operating_system_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare_node.sys, "platform", "darwin")
    with pytest.raises(CommandError, match="this machine does not run Linux; run the command on a node with Debian or Ubuntu"):
        prepare_node.command(check=True)
