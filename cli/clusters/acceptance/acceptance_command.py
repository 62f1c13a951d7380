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

from cli import installation, options
from cli.clusters.acceptance import checklist, destroying, emulation, prompts
from cli.clusters.acceptance.checklist import Check
from cli.clusters.acceptance.ec2 import Ec2Target
from cli.clusters.acceptance.eks import EksTarget
from cli.clusters.acceptance.report import LeftOut, Report, Row
from cli.clusters.acceptance.target import Options, Plan, Target
from cli.console import Listing, make_console, print_json, say
from cli.errors import CommandError
from cli.exit_codes import FAILED, OK, REFUSED, USAGE
from cli.stacks import pulumi_program
from infra.config import stack_file
from infra.config.stack_file import RawStack
from infra.facts.clients import Clients
from infra.jobs.smoke import Level

STYLES = {"passed": "green", "failed": "bold red", "not on this hardware": "yellow", "not run": "red"}
DEFAULT_MINUTES = 45.0


def command(
    stack: options.Stack,
    level: Annotated[Level, typer.Option(help="Highest level of the smoke test; each includes the previous one.")] = "nccl",
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask whether the cost is acceptable.")] = False,
    destroy: Annotated[
        bool, typer.Option("--destroy", help="Destroy the stack afterwards, even if a row failed. Asks you to type its name.")
    ] = False,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder for the report.", show_default="the current one")
    ] = Path(),
    pool: Annotated[
        str | None, typer.Option(help="EKS: pool for the smoke test.", show_default="a GPU pool, if possible with running nodes")
    ] = None,
    scale_pool: Annotated[
        str | None, typer.Option(help="EKS: pool to scale from zero.", show_default="a pool with minSize 0, if possible empty")
    ] = None,
    image: Annotated[
        str | None, typer.Option(help="EKS: image for the jobs, as in `smoke`.", show_default="this project's image")
    ] = None,
    minutes: Annotated[float, typer.Option(min=1.0, help="Time limit of each job and each scaling step.")] = DEFAULT_MINUTES,
    identity: options.Identity = None,
    config_dir: options.ConfigDir = options.STACK_FILES,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    namespace: options.Namespace = None,
    as_json: options.Json = False,
) -> int:
    """Prints the cost first, and refuses to run while other jobs use the cluster.

    Writes acceptance-STACK-DATE.json and .md. A row that needs hardware fails without it, except on the local cloud.
    """
    chosen = Options(level, minutes, pool, scale_pool, image, namespace, kubeconfig, context, identity)
    raw = stack_file.read(stack_file.find(stack, config_dir))
    with tempfile.TemporaryDirectory(prefix="gpumpi-acceptance-") as scratch:
        target = _target(raw, config_dir, chosen, Path(scratch))
        plan = _prepare(target)
        terminal = prompts.interactive()
        prompts.confirm_cost(yes=yes, terminal=terminal)
        if destroy:
            prompts.confirm_destroy(raw.stack, terminal=terminal)
        run = Run(target, plan, _first(raw, target, plan, level), output)
        report = run.all(_destroy_check(raw) if destroy else None)
    if as_json:
        print_json(report.as_json())
    else:
        _print(report)
    return OK if report.ok else FAILED


def _target(raw: RawStack, folder: Path, chosen: Options, scratch: Path) -> Target:
    values = raw.values.get("target")
    kind = values.get("kind") if isinstance(values, dict) else None
    if kind not in ("eks", "ec2"):
        raise CommandError(f"{raw.stack}: acceptance checks stacks of kind eks and ec2, not {kind}. Use `smoke`", USAGE)
    if not raw.region:
        raise CommandError("; ".join(map(str, raw.problems)) or "aws:region: is missing", REFUSED)
    return EksTarget(raw, folder, chosen, scratch) if kind == "eks" else Ec2Target(raw, folder, chosen)


def _prepare(target: Target) -> Plan:
    """Print the cost, and raise CommandError if other jobs are running. Creates nothing."""
    plan = target.plan()
    for line in plan.cost.lines():
        say(line)
    if foreign := target.foreign():
        fix = "wait for them, or cancel them"
        raise CommandError(
            f"{len(foreign)} jobs that acceptance did not create are running: {', '.join(foreign)}; {fix}", REFUSED
        )
    if left := target.clean():  # delete finished jobs of an earlier run
        raise CommandError("; ".join(left))
    return plan


def _first(raw: RawStack, target: Target, plan: Plan, level: str) -> Report:
    """Return the initial report, which has no rows."""
    devices = emulation.text(target.emulated())
    started = datetime.now(UTC).replace(microsecond=0)
    return Report(
        raw.stack,
        target.cluster,
        target.kind,
        target.region,
        level,
        product(),
        started,
        devices,
        plan.cost.as_json(),
        left_out=tuple(plan.left_out),
    )


def product() -> str:
    """Return the version of this program and, in a clone, its commit."""
    text = f"gpumpi {installation.version()}"
    if installation.CLONE is None:
        return text
    found = []
    for arguments in (("rev-parse", "HEAD"), ("status", "--porcelain", "--untracked-files=no")):
        command = ["git", "-C", str(installation.CLONE), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return f"{text}, commit unknown"
        found.append(done.stdout.strip())
    return f"{text}, commit {found[0]}{' with local changes' if found[1] else ''}"


def _destroy_check(raw: RawStack) -> Check:
    return Check(destroying.NAME, partial(destroying.check, Clients(raw.region), raw.stack, pulumi_program.destroy))


class Run:
    """One run. Writes the report after each row, so that the results of an interrupted run are kept."""

    def __init__(self, target: Target, plan: Plan, report: Report, folder: Path) -> None:
        self._target, self._plan, self._folder = target, plan, folder
        self._report = report

    def all(self, destroy: Check | None, tell: Callable[[str], None] = say) -> Report:
        """Run all rows, clean up, and return the report. After an interrupt, only clean up; the report then stays
        incomplete.
        """
        try:
            self._add(checklist.run(self._plan.checks, self._emulated, report=tell))
        finally:
            tell("cleaning up ...")
            self._note(self._target.clean())
            self._write(tell)
        if destroy is not None:
            self._add(checklist.run([destroy], dict, report=tell))
        self._report = replace(self._report, complete=True)
        self._write(tell)
        return self._report

    def _emulated(self) -> Mapping[str, str]:
        """Return the nodes' declarations about their devices, and record them in the report."""
        declared = self._target.emulated()
        self._report = replace(self._report, devices=emulation.text(declared))
        return declared

    def _add(self, found: Iterable[Row | LeftOut]) -> None:
        for one in found:
            if isinstance(one, Row):
                self._report = replace(self._report, rows=(*self._report.rows, one))
            else:
                self._report = replace(self._report, left_out=(*self._report.left_out, one))
            self._report.write(self._folder)

    def _note(self, sentences: Sequence[str]) -> None:
        self._report = replace(self._report, notes=(*self._report.notes, *sentences))

    def _write(self, tell: Callable[[str], None]) -> None:
        files = self._report.write(self._folder)
        tell(f"report: {', '.join(map(str, files))}")


def _print(report: Report) -> None:
    console = make_console()
    listing = Listing("check", "result", "seconds", "reason", right=["seconds"])
    for row in report.rows:
        listing.add_row(row.name, Text(row.result, STYLES[row.result]), f"{row.seconds:.1f}", row.reason)
    for one in report.left_out:
        listing.add_row(one.name, Text("(left out)", "dim"), "", one.reason)
    console.print(listing)
    for note in report.notes:
        console.print(note, style="red")
    console.print(report.summary(), style="bold green" if report.ok else "bold red")
