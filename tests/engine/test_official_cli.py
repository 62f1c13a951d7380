"""An official CLI on PATH: our build of the same CLI under its official name."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from localcloud.installed_programs import LANGUAGE_HOST
from localcloud.instance import LocalCloud
from localcloud.processes import ROOT
from localcloud.tools.build import ensure_tool
from localcloud.tools.catalogue import PULUMI
from testkit.projects import Project

PROGRAM = "import pulumi\npulumi.export('a', 1)\n"
STRICT_HOST = f"""#!{sys.executable}
import sys
sys.path.insert(0, {str(ROOT)!r})
from localcloud.engine import language_host, language_packages
ours = language_packages.find_interpreter
def find_interpreter(root, virtualenv):
    assert virtualenv, "the first python on PATH has no pulumi"
    return ours(root, virtualenv)
language_packages.find_interpreter = find_interpreter
language_host.main()
"""
"""Like the official language host, this stub does not run programs with its own interpreter."""


@pytest.fixture
def path_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The first folder on PATH, which contains the CLI."""
    cli_folder = tmp_path / "bin"
    cli_folder.mkdir()
    (cli_folder / "pulumi").symlink_to(ensure_tool(PULUMI, print))
    other_folders = [entry for entry in os.environ["PATH"].split(os.pathsep) if not Path(entry, LANGUAGE_HOST).exists()]
    monkeypatch.setenv("PATH", os.pathsep.join([str(cli_folder), *other_folders]))
    return cli_folder


@pytest.fixture
def own_cloud(tmp_path: Path) -> Iterator[LocalCloud]:
    cloud = LocalCloud(tmp_path / "cloud")
    yield cloud
    cloud.stop()


def run_preview(cloud: LocalCloud, folder: Path) -> str:
    project = Project(cloud, folder)
    project.create(PROGRAM)
    outcome = project.run("preview")
    assert outcome.ok, outcome.output
    return outcome.output


def test_a_pulumi_cli_without_a_language_host_uses_the_local_language_host(
    path_folder: Path, own_cloud: LocalCloud, tmp_path: Path
) -> None:
    own_cloud.start(print)
    assert (own_cloud.bin / "pulumi").read_bytes() == (path_folder / "pulumi").read_bytes()
    assert "warning" not in run_preview(own_cloud, tmp_path / "project")


def test_test_projects_run_with_a_language_host_that_requires_a_virtual_environment(
    path_folder: Path, own_cloud: LocalCloud, tmp_path: Path
) -> None:
    (path_folder / LANGUAGE_HOST).write_text(STRICT_HOST)
    (path_folder / LANGUAGE_HOST).chmod(0o755)
    own_cloud.start(print)
    assert not (own_cloud.bin / "pulumi").exists() and not (own_cloud.bin / LANGUAGE_HOST).exists()
    run_preview(own_cloud, tmp_path / "project")
