"""Tests of an `xdist_group` share fixtures that take minutes to start, so these tests must run in one process.

pytest 9.2 silently distributes them across processes: https://github.com/pytest-dev/pytest-xdist/issues/1386
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.conftest import LONGEST_FIRST

ROOT = Path(__file__).parents[1]
KILLS = ("kill_engine(", "engine.kill()", ".recover(")
"""Calls that tests use to kill the Pulumi engine or to recover a stack afterwards."""

MODULE = """
import os
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("{group}")


@pytest.mark.parametrize("number", range(6))
def test_where(number: int) -> None:
    Path("{group}", str(os.getpid())).touch()
"""
SHARES = """
import os
from pathlib import Path

import pytest


@pytest.fixture(scope="{scope}")
def shared() -> None:
    Path("{name}", str(os.getpid())).touch()


@pytest.mark.parametrize("number", range(6))
def test_where(number: int, shared: None) -> None:
    pass
"""


def run_pytest_in_two_processes(folder: Path, *options: str) -> None:
    command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadgroup", "-p", "no:cacheprovider", *options]
    command += ["--rootdir", str(folder), str(folder)]
    done = subprocess.run(
        command, cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT.parent)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def count_processes(folder: Path, names: Sequence[str]) -> list[int]:
    return [len(list((folder / name).iterdir())) for name in names]


def test_tests_of_an_xdist_group_run_in_one_process(tmp_path: Path) -> None:
    groups = ("one", "other")
    for group in groups:
        (tmp_path / group).mkdir()
        (tmp_path / f"test_{group}.py").write_text(MODULE.format(group=group))
    run_pytest_in_two_processes(tmp_path)
    assert count_processes(tmp_path, groups) == [1, 1]


def test_module_and_package_fixtures_are_set_up_in_one_process(tmp_path: Path) -> None:
    scopes = ("module", "package")
    package = tmp_path / "tested"
    package.mkdir()
    (package / "__init__.py").touch()
    for scope in scopes:
        (tmp_path / scope).mkdir()
        (package / f"test_{scope}.py").write_text(SHARES.format(scope=scope, name=scope))
    run_pytest_in_two_processes(tmp_path, "-p", "tests.conftest")
    assert count_processes(tmp_path, scopes) == [1, 1]


def test_every_group_scheduled_first_exists() -> None:
    texts = [file.read_text(encoding="utf-8") for file in ROOT.rglob("test_*.py")]
    assert [group for group in LONGEST_FIRST if not any(f'xdist_group("{group}")' in text for text in texts)] == []


def test_tests_that_kill_the_pulumi_engine_enable_state_checkpoints() -> None:
    folders = (ROOT / name for name in ("cli", "engine", "hosts", "kubernetes", "stacks"))
    texts = {str(file): file.read_text(encoding="utf-8") for folder in folders for file in folder.rglob("test_*.py")}
    killing = {name for name, text in texts.items() if any(method in text for method in KILLS)}
    assert len(killing) >= 3
    assert [name for name in sorted(killing) if "pytest.mark.checkpoints" not in texts[name]] == []
