"""bench/gpu/one_gpu.py runs the programs of jobs as jobs do, and changes nothing that exists."""

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from infra.jobs import containers, smoke


@pytest.fixture
def one_gpu_module() -> Any:
    return importlib.import_module("bench.gpu.one_gpu")


def test_gpu_test_script_uses_the_same_nccl_variables_as_jobs(one_gpu_module: Any) -> None:
    assert one_gpu_module.RECORDER == containers.FLIGHT_RECORDER
    assert one_gpu_module.NCCL_LOG == smoke.NCCL_LOG


@pytest.mark.parametrize(
    ("arguments", "error"),
    [(["--logs", "."], "--logs: . exists. Choose a new folder"), (["--logs", "new", "--only", "ncl"], "invalid choice: 'ncl'")],
    ids=["existing folder", "unknown check"],
)
def test_invalid_arguments_exit_with_an_error(
    one_gpu_module: Any,
    arguments: list[str],
    error: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "mine").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["one_gpu.py", *arguments])
    with pytest.raises(SystemExit) as ended:
        one_gpu_module.main()
    assert ended.value.code == 2 and error in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
