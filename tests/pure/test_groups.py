"""Tests of an `xdist_group` share what takes minutes to bring up; scattered over processes each would bring up its own.

pytest 9.2 does scatter them, without a word: https://github.com/pytest-dev/pytest-xdist/issues/1386
"""

import subprocess
import sys
from pathlib import Path

MODULE = """
import os
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("{group}")


@pytest.mark.parametrize("number", range(6))
def test_where(number: int) -> None:
    Path("{group}", str(os.getpid())).touch()
"""


def test_the_tests_of_a_group_run_in_one_process(tmp_path: Path) -> None:
    groups = ("one", "other")
    for group in groups:
        (tmp_path / group).mkdir()
        (tmp_path / f"test_{group}.py").write_text(MODULE.format(group=group))
    command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadgroup", "-p", "no:cacheprovider", "--rootdir", tmp_path]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert [len(list((tmp_path / group).iterdir())) for group in groups] == [1, 1]
