"""Behavior common to all verbs: help, exit codes, errors as text and JSON, hints, and output to a pipe."""

import importlib
import io
import json
import os
import subprocess
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from cli import console, errors, exit_codes, installation, main
from cli.console import Listing

ROOT = Path(__file__).parents[2]
STACK_VERBS = {
    "jobs": [],
    "health": [],
    "dashboard": [],
    **{name: ["some-run"] for name in ("cancel", "logs")},
    **{
        name: [] for name in ("validate", "plan", "cost", "kubeconfig", "status", "acceptance", "wait", "hosts", "ssh", "recover")
    },
    "run": ["--", "true"],
    "scale": ["1"],
    "capacity reserve": ["cb-0123456789abcdef0"],
    "image build": ["mpi"],
    "local grant": [],
}
"""Maps a verb to its required arguments in addition to the stack."""


@pytest.fixture
def fake_pulumi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a fake `pulumi` on PATH that knows no stacks and prints the error message of the real `pulumi`."""
    program = tmp_path / "pulumi"
    program.write_text("#!/bin/sh\necho \"error: no stack named 'missing' found\" >&2; exit 255\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)


def make_command_line(verb: str, folder: Path, *more: str) -> list[str]:
    where = [] if verb in ("recover", "image build") else ["--config-dir", str(folder)]
    home = ["--home", str(folder / "cloud")] if verb.startswith("local") else []
    return [*verb.split(), "-s", "missing", *where, *home, *more, *STACK_VERBS[verb]]


def test_missing_stack_test_covers_every_command_with_a_stack() -> None:
    with_stack = {name for name, command in main.list_commands() if any("--stack" in option.opts for option in command.params)}
    assert with_stack - {"init"} == set(STACK_VERBS)


@pytest.mark.parametrize("verb", STACK_VERBS)
def test_missing_stack_ends_every_command_with_exit_code_4(verb: str, fake_pulumi: None, tmp_path: Path) -> None:
    plain = CliRunner().invoke(main.app, make_command_line(verb, tmp_path))
    assert (plain.exit_code, plain.stdout) == (4, ""), plain.output
    assert plain.stderr.startswith(f"cluster {verb}: ") and len(plain.stderr.splitlines()) == 1
    as_json = CliRunner().invoke(main.app, make_command_line(verb, tmp_path, "--json"))
    document = json.loads(as_json.stdout)
    assert (as_json.exit_code, document["exitCode"]) == (4, 4)
    assert document["error"] and as_json.stderr == ""


def test_usage_errors_are_json_if_json_was_requested() -> None:
    done = CliRunner().invoke(main.app, ["hosts", "--json"])
    assert (done.exit_code, done.stderr) == (2, "")
    assert json.loads(done.stdout) == {"error": "Missing option '--stack' / '-s'.", "exitCode": 2}


def test_an_interrupt_ends_a_command_with_exit_code_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("infra.config.stack_file.find_stack_file", raise_interrupt)
    assert CliRunner().invoke(main.app, ["hosts", "-s", "local"]).exit_code == 130


@pytest.mark.parametrize("name", errors.CODES)
def test_every_exception_class_in_the_exit_code_table_exists(name: str) -> None:
    module, _, kind = name.rpartition(".")
    exception_class = getattr(importlib.import_module(module), kind)
    assert f"{exception_class.__module__}.{exception_class.__qualname__}" == name


@pytest.mark.parametrize("verb", [name for name, _ in main.list_commands()])
def test_help_of_every_command_lists_the_exit_codes(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    done = CliRunner().invoke(main.app, [*verb.split(), "--help"])
    assert done.exit_code == 0
    assert all(f"{code}: {meaning}" in done.stdout for code, meaning in exit_codes.MEANINGS.items())


def test_help_lists_every_command_without_loading_its_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cli.lazy.LazyCommand.load", lambda self: pytest.fail(f"{self.name} was loaded"))
    for arguments, verbs in (
        ([], [name for group in main.VERBS.values() for name in group]),
        (["local"], main.LOCAL),
        (["image"], main.IMAGE),
    ):
        done = CliRunner().invoke(main.app, [*arguments, "--help"])
        assert done.exit_code == 0
        assert all(f"│ {verb} " in done.stdout for verb in verbs)


def test_version_option_prints_the_package_version() -> None:
    done = CliRunner().invoke(main.app, ["--version"])
    assert (done.exit_code, done.stdout) == (0, "0.1.0\n")


def test_shell_completion_can_be_installed() -> None:
    assert "--install-completion" in CliRunner().invoke(main.app, ["--help"]).stdout


def test_a_suggested_command_works_when_pasted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in (ROOT, ROOT / "docs", tmp_path):
        monkeypatch.chdir(folder)
        done = subprocess.run(
            ["sh", "-c", f"{installation.program_name()} --version"], capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout) == (0, "0.1.0\n"), installation.program_name()
    monkeypatch.chdir(ROOT)
    assert installation.program_name() == "scripts/cluster"
    monkeypatch.setattr(installation, "_FROM_WHEEL", True)
    monkeypatch.setattr(installation, "NAME", "gpumpi")
    assert installation.make_pasteable("see `scripts/cluster ssh`") == "see `gpumpi ssh`"


REASON = "no-capacity-in-this-zone try-another-zone"


def make_listing() -> Listing:
    listing = Listing("pool", "instance type", "what it waits for", "reason")
    listing.add_row("training-pool", "p4d.24xlarge", "UnavailableOffering", REASON)
    return listing


def test_piped_output_keeps_whole_lines(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    console.make_console().print(make_listing())
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 2 and REASON in printed[1]


def print_at_width(width: int) -> list[str]:
    terminal = Console(file=io.StringIO(), width=width, highlight=False, markup=False, soft_wrap=True)
    with terminal.capture() as capture:
        terminal.print(make_listing())
    return [line.rstrip() for line in capture.get().splitlines()]


def test_a_table_becomes_a_list_in_a_narrow_terminal() -> None:
    assert print_at_width(60) == [
        "pool: training-pool",
        "instance type: p4d.24xlarge",
        "what it waits for: UnavailableOffering",
        f"reason: {REASON}",
    ]
    assert [len(print_at_width(width)) for width in (90, 120)] == [3, 2]


def test_the_no_color_variable_disables_colors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert not console.make_console().no_color
    monkeypatch.setenv("NO_COLOR", "1")
    assert console.make_console().no_color
