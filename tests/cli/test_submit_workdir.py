"""`submit --workdir`, without a cluster."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from cli import submit
from cli.exit_codes import REFUSED
from cli.main import app
from tests.pure.job_world import cluster, values


def test_a_sent_folder_and_a_working_folder_are_refused_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks start in one folder only. The job file alone is rejected in the same way."""

    class FakeCluster:
        namespace = None

        def connect(self) -> Any:
            return self

        def description(self) -> Any:
            return cluster()

    monkeypatch.setattr(submit, "Access", lambda *_: FakeCluster())
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(values(workingDir="/shared/code")))
    done = CliRunner().invoke(app, ["submit", str(file), "--workdir", str(tmp_path)])
    assert done.exit_code == REFUSED
    said = " ".join(done.stderr.split())
    assert "workingDir: cannot be combined with workdir: ranks start in the folder that workdir sends." in said
