"""Tests of `submit` that need no cluster."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from cli.clusters.kubernetes_access import Access
from cli.exit_codes import REFUSED
from cli.jobs import submit
from cli.main import app
from tests.pure.job_world import make_cluster, make_job_values


class FakeCluster:
    """A fake cluster in us-west-2 that accepts every job."""

    namespace = None

    def connect(self) -> Any:
        return self

    def description(self) -> Any:
        return make_cluster().model_copy(update={"region": "us-west-2"})


@pytest.fixture(autouse=True)
def fake_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Access, "connect", lambda self: FakeCluster())


def test_submit_prints_the_cost_of_the_nodes_of_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submit, "create_job", lambda *_, **__: 0)
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(make_job_values()))
    done = CliRunner().invoke(app, ["submit", str(file)])
    assert done.exit_code == 0, done.output
    assert re.search(r"^cost: \d+ x \S+: [\d.]+ USD per hour", done.stderr, re.MULTILINE), done.stderr


def test_submit_refuses_workdir_combined_with_working_dir(tmp_path: Path) -> None:
    """Ranks can start in only one folder. A job file that sets both `workdir` and `workingDir` is also rejected."""
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(make_job_values(workingDir="/shared/code")))
    done = CliRunner().invoke(app, ["submit", str(file), "--workdir", str(tmp_path)])
    assert done.exit_code == REFUSED
    said = " ".join(done.stderr.split())
    assert "workingDir: cannot be combined with workdir: ranks start in the folder that workdir sends." in said
