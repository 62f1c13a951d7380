"""`acceptance`: check a running stack row by row and write a report."""

import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from cli import installation, options, prompts
from cli.aws_queries import require_region
from cli.clusters.acceptance import aws_reads, report
from cli.clusters.acceptance.ec2 import Ec2Target
from cli.clusters.acceptance.eks import EksTarget
from cli.clusters.acceptance.report import Check, LeftOut, Report, Row
from cli.clusters.acceptance.target import Options, Plan, Target, describe_devices
from cli.clusters.kubernetes_access import Access
from cli.console import Listing, make_console, print_result, say
from cli.errors import CommandError
from cli.exit_codes import FAILED, OK, REFUSED, USAGE
from cli.stacks import pulumi_program
from infra.config import stack_file
from infra.config.stack_file import RawStack
from infra.facts.clients import Clients

STYLES = {"passed": "green", "failed": "bold red", "not on this hardware": "yellow", "not run": "red"}


def command(
    stack: options.Stack,
    *,
    chosen: Options,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask whether the cost is acceptable.")] = False,
    destroy: Annotated[
        bool, typer.Option("--destroy", help="Destroy the stack afterwards, even if a row failed. Asks you to type its name.")
    ] = False,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the report.", show_default="the current one")
    ] = Path(),
    config_dir: options.ConfigDir = options.STACK_FILES,
    access: Access,
    as_json: options.Json = False,
) -> int:
    """Prints the cost first, and refuses to run while other jobs use the cluster.

    Writes acceptance-STACK-DATE.json and .md. A row that needs hardware fails without it, except on the local cloud.
    """
    raw = stack_file.read_stack_file(stack_file.find_stack_file(stack, config_dir))
    with tempfile.TemporaryDirectory(prefix="gpumpi-acceptance-") as scratch:
        target = connect_target(raw, config_dir, chosen, access, Path(scratch))
        plan = prepare_run(target)
        terminal = prompts.is_interactive()
        prompts.confirm("Start?", "cost", "started", yes=yes, terminal=terminal)
        if destroy:
            prompts.confirm_destroy(raw.stack, terminal=terminal)
        run = Run(target, plan, start_report(raw, target, plan, chosen.level), output)
        check = partial(aws_reads.check_destroy, Clients(raw.region), raw.stack, pulumi_program.destroy_stack)
        report = run.run_all_rows(Check(aws_reads.DESTROY, check) if destroy else None)
    return print_result(report.as_json(), lambda: _print_report(report), as_json=as_json, code=OK if report.ok else FAILED)


def connect_target(raw: RawStack, folder: Path, chosen: Options, access: Access, scratch: Path) -> Target:
    kind = raw.target_kind
    if kind not in ("eks", "ec2"):
        raise CommandError(f"{raw.stack}: acceptance checks stacks of kind eks and ec2, not {kind or None}. Use `smoke`", USAGE)
    require_region(raw)
    return EksTarget(raw, folder, chosen, access, scratch) if kind == "eks" else Ec2Target(raw, folder, chosen)


def prepare_run(target: Target) -> Plan:
    """Print the cost, and raise CommandError if other jobs are running. Creates nothing."""
    plan = target.plan()
    for line in plan.cost.lines():
        say(line)
    if foreign := target.list_foreign_jobs():
        fix = "wait for them, or cancel them"
        raise CommandError(
            f"{len(foreign)} jobs that acceptance did not create are running: {', '.join(foreign)}; {fix}", REFUSED
        )
    if left := target.clean_up():  # delete finished jobs of an earlier run
        raise CommandError("; ".join(left))
    return plan


def start_report(raw: RawStack, target: Target, plan: Plan, level: str) -> Report:
    """Return the initial report, which has no rows."""
    devices = describe_devices(target.read_device_declarations())
    started = datetime.now(UTC).replace(microsecond=0)
    return Report(
        raw.stack,
        target.cluster,
        target.kind,
        target.region,
        level,
        describe_program_version(),
        started,
        devices,
        plan.cost.as_json(),
        left_out=tuple(plan.left_out),
    )


def describe_program_version() -> str:
    """Return the version of this program and, in a clone, its commit."""
    text = f"gpumpi {installation.program_version()}"
    if installation.CLONE is None:
        return text
    answers = []
    for arguments in (("rev-parse", "HEAD"), ("status", "--porcelain", "--untracked-files=no")):
        command = ["git", "-C", str(installation.CLONE), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return f"{text}, commit unknown"
        answers.append(done.stdout.strip())
    return f"{text}, commit {answers[0]}{' with local changes' if answers[1] else ''}"


class Run:
    """One run. Writes the report after each row, so that the results of an interrupted run are kept."""

    def __init__(self, target: Target, plan: Plan, report: Report, folder: Path) -> None:
        self._target, self._plan, self._folder = target, plan, folder
        self._report = report

    def run_all_rows(self, destroy: Check | None, tell: Callable[[str], None] = say) -> Report:
        """Run all rows, clean up, and return the report. After an interrupt, only clean up; the report then stays
        incomplete.
        """
        try:
            self._add_results(report.run_checks(self._plan.checks, self._read_emulation_declarations, report=tell))
        finally:
            tell("cleaning up ...")
            self._add_notes(self._target.clean_up())
            self._write_report(tell)
        if destroy is not None:
            self._add_results(report.run_checks([destroy], dict, report=tell))
        self._report = replace(self._report, complete=True)
        self._write_report(tell)
        return self._report

    def _read_emulation_declarations(self) -> Mapping[str, str]:
        """Return the nodes' declarations about their devices, and record them in the report."""
        declared = self._target.read_device_declarations()
        self._report = replace(self._report, devices=describe_devices(declared))
        return declared

    def _add_results(self, results: Iterable[Row | LeftOut]) -> None:
        for result in results:
            if isinstance(result, Row):
                self._report = replace(self._report, rows=(*self._report.rows, result))
            else:
                self._report = replace(self._report, left_out=(*self._report.left_out, result))
            self._report.write(self._folder)

    def _add_notes(self, sentences: Sequence[str]) -> None:
        self._report = replace(self._report, notes=(*self._report.notes, *sentences))

    def _write_report(self, tell: Callable[[str], None]) -> None:
        files = self._report.write(self._folder)
        tell(f"report: {', '.join(map(str, files))}")


def _print_report(report: Report) -> None:
    console = make_console()
    rows = [(row.name, Text(row.result, STYLES[row.result]), f"{row.seconds:.1f}", row.reason) for row in report.rows]
    rows += [(check.name, Text("(left out)", "dim"), "", check.reason) for check in report.left_out]
    console.print(Listing("check", "result", "seconds", "reason", rows=rows, right=["seconds"]))
    for note in report.notes:
        console.print(note, style="red")
    console.print(report.summary(), style="bold green" if report.ok else "bold red")
