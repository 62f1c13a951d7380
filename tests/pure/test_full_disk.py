"""A full disk, at any point, ends a verb with one line that contains the path, and leaves existing files as they were."""

import errno
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from cli import whole_files
from cli.exit_codes import FAILED
from cli.main import app
from cli.stacks import kubeconfig_command
from tests.pure.test_kubeconfig_command import OTHER, OWN

ROOT = Path(__file__).parents[2]
PROGRAM = f"""
import json, sys
sys.argv[0] = {str(ROOT / "scripts" / "cluster")!r}
from cli import main
from cli.stacks import kubeconfig_command
kubeconfig_command.build_kubeconfig = lambda *_: {OWN!r}
main.main()
"""
"""The command line, with an EKS cluster that AWS would report."""
FREE = "Free space on this disk, or write to another one."


def run_script(command: str, *arguments: object) -> "subprocess.CompletedProcess[str]":
    """Run a shell script; `"$@"` is the command line with the arguments."""
    words = ["sh", "-c", command, "sh", sys.executable, "-c", PROGRAM, *map(str, arguments)]
    variables = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(words, capture_output=True, text=True, check=False, env=variables, cwd=ROOT)


STACK = ("-s", "full", "--offline", "--yes", "--target", "ec2", "--region", "us-west-2", "--allow", "none")
WRITERS: dict[str, tuple[list[str], str]] = {
    "kubeconfig": (["kubeconfig", "-s", "local", "-o", "{disk}/config"], "{disk}/config: no space left on device. "),
    "init": (["init", *STACK, "--config-dir", "{disk}"], "{disk}/Pulumi.full.yaml cannot be written: No space left on device"),
}


@pytest.mark.skipif(
    subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode != 0, reason="needs a mount namespace"
)
@pytest.mark.parametrize("verb", WRITERS)
def test_full_file_system_gets_one_line_error_and_files_stay_intact(tmp_path: Path, verb: str) -> None:
    (disk := tmp_path / "disk").mkdir()
    arguments, message = WRITERS[verb]
    before = yaml.safe_dump(OTHER)
    (tmp_path / "before").write_text(before)
    script = f"""
        mount -t tmpfs -o size=64k,nr_inodes=20 full {disk} && cp {tmp_path}/before {disk}/config || exit 99
        cat /dev/zero > {disk}/filler 2> /dev/null
        "$@"; code=$?
        cp {disk}/config {tmp_path}/after; ls -A {disk} > {tmp_path}/listed; exit $code
    """
    filled = [argument.format(disk=disk) for argument in arguments]
    done = run_script(f"exec unshare -m sh -c '{script}' sh \"$@\"", *filled)
    assert done.returncode not in (0, 99) and done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert message.format(disk=disk) in line
    assert (tmp_path / "after").read_text() == before
    assert (tmp_path / "listed").read_text().split() == ["config", "filler"]


def test_error_names_full_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(Path, "write_text", make_failing_call(errno.ENOSPC))
    done = CliRunner().invoke(app, ["init", *STACK, "--config-dir", str(tmp_path)])
    assert (done.exit_code, done.output) == (
        FAILED,
        f"cluster init: a temporary file in {tmp_path}: no space left on device. {FREE}\n",
    )


PRINTERS: list[list[str]] = [
    ["settings"],
    ["settings", "--json"],
    ["settings", "--of", "job"],
    ["kubeconfig", "-s", "local"],
    ["kubeconfig", "-s", "local", "--json"],
    ["kubeconfig", "-s", "local", "-o", "/dev/stdout"],
    ["validate", "local", "--offline"],
    ["validate", "local", "--offline", "--json"],
    ["validate", "no-such-stack", "--json"],
    ["import", "--help"],
    ["--help"],
    ["--version"],
]


@pytest.mark.parametrize("arguments", PRINTERS, ids=" ".join)
def test_full_disk_is_reported_once_if_stdout_is_redirected_to_a_file(arguments: list[str]) -> None:
    done = run_script('exec "$@" > /dev/full', *arguments)
    assert done.returncode == FAILED
    (line,) = done.stderr.splitlines()
    assert line.endswith(f": no space left on device. {FREE}") and ("standard output" in line or "/dev/stdout" in line)


def test_full_disk_of_redirected_stdout_and_stderr_fails_the_command() -> None:
    assert run_script('exec "$@" > /dev/full 2> /dev/full', "settings").returncode == FAILED


@pytest.mark.parametrize("arguments", [["settings"], ["settings", "--json"], ["--help"]], ids=" ".join)
def test_closed_pipe_prints_no_error(arguments: list[str]) -> None:
    assert run_script('"$@" | true', *arguments).stderr == ""


def test_output_arrives_complete_and_in_order() -> None:
    printed = run_script('exec "$@" 2>&1', "kubeconfig", "-s", "local").stdout
    assert yaml.safe_load(printed) == OWN


ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENAMETOOLONG)


@pytest.mark.parametrize("number", ERRORS, ids=errno.errorcode.get)
@pytest.mark.parametrize("call", ["fsync", "fdopen"])
def test_every_disk_error_is_one_line_and_keeps_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, call: str
) -> None:
    (file := tmp_path / "config").write_text(yaml.safe_dump(OTHER))
    monkeypatch.setattr(kubeconfig_command, "build_kubeconfig", lambda *_: OWN)
    monkeypatch.setattr(whole_files.os, call, make_failing_call(number))
    done = CliRunner().invoke(app, ["kubeconfig", "-s", "local", "-o", str(file)])
    assert (done.exit_code, done.exception.__class__) == (FAILED, SystemExit)
    assert done.output.startswith(f"cluster kubeconfig: {file}: {os.strerror(number).lower()}.")
    assert len(done.output.splitlines()) == 1
    assert yaml.safe_load(file.read_text()) == OTHER and [path.name for path in tmp_path.iterdir()] == ["config"]


def test_a_network_error_is_not_reported_as_a_file_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kubeconfig_command, "build_kubeconfig", make_failing_call(errno.ECONNREFUSED))
    done = CliRunner().invoke(app, ["kubeconfig", "-s", "local"])
    assert isinstance(done.exception, ConnectionRefusedError) and "temporary file" not in done.output


def make_failing_call(number: int) -> Callable[..., Any]:
    def raise_os_error(*_: object, **__: object) -> Any:
        raise OSError(number, os.strerror(number))

    return raise_os_error
