"""Garbage collection is off in processes that keep most of their objects, because it would use up to a third of their
CPU time.
"""

import gc
import runpy
import subprocess
import sys
import types

import pytest

from cli import main as command_line
from localcloud import garbage
from localcloud.processes import ROOT


def test_pytest_process_freezes_loaded_modules_and_still_collects_later_garbage() -> None:
    assert gc.isenabled()
    assert gc.get_threshold()[0] == garbage.OBJECTS
    assert gc.get_freeze_count() > 10_000


def test_pulumi_program_is_imported_and_runs_without_garbage_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    collecting: list[bool] = []
    program = types.ModuleType("infra.program")
    monkeypatch.setattr(program, "run_program", lambda: collecting.append(gc.isenabled()), raising=False)
    monkeypatch.setitem(sys.modules, "infra.program", program)
    try:
        runpy.run_path(str(ROOT / "__main__.py"), run_name="__main__")
    finally:
        gc.enable()
    assert collecting == [False]


def test_paused_process_collects_no_garbage_until_resumed_and_none_at_exit() -> None:
    code = """
import atexit, gc
atexit.register(lambda: print(gc.get_freeze_count() > 0))
from cli import main as command_line
from localcloud import garbage
garbage.pause_collection()
print(gc.isenabled())
garbage.resume_collection()
print(gc.isenabled())
gc.unfreeze()
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "True"]


def test_cli_command_rarely_runs_garbage_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    thresholds: list[int] = []
    monkeypatch.setattr(command_line, "app", lambda **_: thresholds.append(gc.get_threshold()[0]))
    before = gc.get_threshold()
    gc.set_threshold(700)
    try:
        command_line.main()
    finally:
        gc.set_threshold(*before)
    assert thresholds == [100_000]
