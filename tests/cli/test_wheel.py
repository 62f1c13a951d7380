"""The command line installed from a wheel: `gpumpi` with every verb that works without a clone of the repository."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from importlib import util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
JOB = "name: Train\npool: train\nworkers: 2\nimage: a/b:1\ncommand: [python3]\n"
STACK = "config:\n  aws:region: us-west-2\n  gpumpi:target: {kind: eks}\n"
MAIN = "import sys; sys.argv[0] = 'gpumpi'; from cli.main import main; main()"


@pytest.fixture(scope="module")
def unpacked_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Contents of the wheel, built without network access."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("cli", "infra"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "requirements.txt"):
        shutil.copy2(ROOT / name, source / name)
    if util.find_spec("wheel") is not None:
        command = ["-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", str(target), "."]
        subprocess.run([sys.executable, *command], cwd=source, check=True, capture_output=True)
        with zipfile.ZipFile(next(target.glob("gpumpi-*.whl"))) as wheel:
            wheel.extractall(target / "content")
    else:  # old versions of setuptools cannot build a wheel without the package `wheel`: install the same files instead
        options = ["--root", str(target), "--install-lib", "/content", "--single-version-externally-managed"]
        command = ["-c", "import setuptools; setuptools.setup()", "install", *options]
        subprocess.run([sys.executable, *command], cwd=source, check=True, capture_output=True)
    return target / "content"


def run_gpumpi(installed: Path, folder: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    variables = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return subprocess.run(
        [sys.executable, "-c", MAIN, *arguments],
        cwd=folder,
        env=variables | {"PYTHONPATH": str(installed), "KUBECONFIG": "/nowhere"},
        text=True,
        capture_output=True,
        check=False,
    )


def test_the_wheel_contains_only_the_cli_and_its_dependencies(unpacked_wheel: Path) -> None:
    assert {path.name for path in unpacked_wheel.iterdir() if path.suffix not in (".egg-info", ".dist-info")} == {"cli", "infra"}
    (entry_points,) = unpacked_wheel.glob("gpumpi-*/entry_points.txt")
    assert "gpumpi = cli.main:main" in entry_points.read_text()
    (metadata,) = [*unpacked_wheel.glob("gpumpi-*/METADATA"), *unpacked_wheel.glob("gpumpi-*/requires.txt")]
    assert "pulumi-aws==" in metadata.read_text()
    page = Path("cli", "clusters", "dashboard", "page")
    assert {path.name for path in (unpacked_wheel / page).iterdir()} == {path.name for path in (ROOT / page).iterdir()}
    scripts = {path.name for path in (ROOT / "infra" / "jobs" / "in_pods").glob("*.sh")}
    assert {path.name for path in (unpacked_wheel / "infra" / "jobs" / "in_pods").glob("*.sh")} == scripts


def test_wheel_commands_run_without_a_clone(unpacked_wheel: Path, tmp_path: Path) -> None:
    (tmp_path / "stacks").mkdir()
    (tmp_path / "stacks" / "Pulumi.mine.yaml").write_text(STACK)
    (tmp_path / "job.yaml").write_text(JOB)
    assert run_gpumpi(unpacked_wheel, tmp_path, "--version").stdout == "0.1.0\n"
    assert "Usage: gpumpi" in run_gpumpi(unpacked_wheel, tmp_path, "--help").stdout
    valid = run_gpumpi(unpacked_wheel, tmp_path, "validate", "mine", "--offline", "--json")
    assert (valid.returncode, json.loads(valid.stdout)["ok"]) == (0, True), valid.stderr
    job = run_gpumpi(unpacked_wheel, tmp_path, "validate", "./job.yaml")
    assert (job.returncode, job.stdout.splitlines()[0].partition(":")[0]) == (3, "name"), job.stderr
    assert "gpumpi" not in run_gpumpi(unpacked_wheel, tmp_path, "settings").stderr
    rows = json.loads(run_gpumpi(unpacked_wheel, tmp_path, "settings", "--of", "job", "--json").stdout)
    assert "command" in [row["path"] for row in rows]


def test_suggested_commands_use_the_command_name_of_the_wheel(unpacked_wheel: Path, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(JOB)
    for arguments in (["jobs"], ["status"], ["smoke"], ["logs", "a"], ["cancel", "a"], ["submit", "job.yaml"]):
        done = run_gpumpi(unpacked_wheel, tmp_path, *arguments)
        message = f"gpumpi {arguments[0]}: the kubeconfig /nowhere does not exist. "
        assert (done.returncode, done.stderr.startswith(message)) == (5, True), done.stderr
        assert "gpumpi kubeconfig -s STACK" in done.stderr and "scripts/cluster" not in done.stderr


@pytest.mark.parametrize("verb", ["acceptance", "demo", "recover", "prepare-node", "image list", "local start"])
def test_a_command_that_needs_a_clone_reports_an_error(unpacked_wheel: Path, tmp_path: Path, verb: str) -> None:
    done = run_gpumpi(unpacked_wheel, tmp_path, *verb.split())
    reason = f"`{verb}` needs files from the repository; clone it and run the command there"
    assert (done.returncode, done.stderr) == (1, f"gpumpi {verb}: {reason}\n")
