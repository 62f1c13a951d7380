"""Base class of the demos. Each step performs an action, verifies it and adds a row to the final table."""

import fcntl
import json
import shlex
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import ClassVar, Final

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from cli.console import Listing, make_console
from cli.errors import CommandError
from cli.exit_codes import FAILED, OK, REFUSED
from localcloud.engine_events import EventLog
from localcloud.instance import LocalCloud
from localcloud.processes import ROOT
from localcloud.stack import LocalStack, Run, Verb, Watch

FOLDER = ROOT / ".local"
"""Folder for the files of all demos; ignored by Git."""
CLUSTER: Final = (sys.executable, str(ROOT / "scripts" / "cluster"))
"""Command `scripts/cluster`."""


class StepFailed(Exception):
    """The step ran, but its verification failed."""


class StepSkipped(Exception):
    """The step cannot run on this machine; the message gives the reason."""


@dataclass
class StepResult:
    """One row of the final table and of demo.json."""

    step: str
    seconds: float = 0.0
    ok: bool = False
    """Whether the step ran and its verification succeeded."""
    skipped: bool = False
    detail: str = ""

    @property
    def failed(self) -> bool:
        return not self.ok and not self.skipped


@dataclass
class Steps(ABC):
    """Steps of a demo, in order. After a failed step, all remaining steps except the cleanup are skipped."""

    name: ClassVar[str]
    """Base name of the demo's lock file, log, result table and local cloud folder."""
    stack_name: ClassVar[str]
    title: ClassVar[str]
    goes_on: ClassVar[str]
    """Commands to try after the demo."""

    cloud: LocalCloud
    stack: LocalStack
    log: Path
    console: Console
    verbose: bool = False
    results: list[StepResult] = field(default_factory=list)

    @classmethod
    def run_and_report(cls, *, verbose: bool = False, as_json: bool = False, folder: Path = FOLDER) -> int:
        """Run the demo, print the final table, write NAME.json, and return the exit code."""
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # SIGTERM stops the local cloud, as ^C does
        with _lock_demo_folder(folder, cls.name):
            table, log = folder / f"{cls.name}.json", folder / f"{cls.name}.log"
            log.unlink(missing_ok=True)
            table.unlink(missing_ok=True)
            cloud = LocalCloud(folder / cls.name)
            demo = cls(cloud, LocalStack(cloud, cls.stack_name), log, make_console(stderr=as_json), verbose)
            ok = demo.run(table)
        if as_json:
            print(table.read_text(), end="")
        return OK if ok else FAILED

    @abstractmethod
    def steps(self) -> None:
        """Call `step` for each step of the demo."""

    def run(self, table: Path) -> bool:
        """Run all steps that this machine can run, and write the table; return True if no step failed."""
        self.console.print(self.title, soft_wrap=True)
        started = time.monotonic()
        try:
            self.steps()
        except KeyboardInterrupt:
            self.console.print("interrupted; stopping the local cloud")
            self.cloud.stop()
            raise
        ok = not any(result.failed for result in self.results)
        table.write_text(json.dumps([asdict(result) for result in self.results], indent=2) + "\n")
        self.console.print()
        self.console.print(render_table(self.results, time.monotonic() - started))
        self.console.print()
        where = f"Pulumi's output: {shorten_path(self.log)}; this table: {shorten_path(table)}"
        self.console.print(where, style="dim", soft_wrap=True)
        if ok:
            self.console.print(f"next: {self.goes_on}", style="dim", soft_wrap=True)
        return ok

    def check_second_up_changes_nothing(self) -> str:
        """Step: check that a second `up` changes nothing."""
        control = self.cloud.control()
        control.reset_call_counts()
        run = self.run_pulumi("up")
        writes = control.writes()
        require(not run.changed, f"a second up must change nothing (changes: {run.changed})")
        require(not writes, f"a second up must not write to AWS (calls: {writes})")
        return f"{run.changes.get('same', 0)} resources unchanged, no AWS writes"

    def destroy(self) -> str:
        """Step: destroy the stack."""
        run = self.run_pulumi("destroy")
        self.stack.remove()
        return f"{run.changes.get('delete', 0)} resources deleted"

    def check_leftovers(self) -> str:
        """Step: check that nothing is left in the account."""
        left = self.cloud.control().leftovers()
        require(not left, f"AWS still holds: {left}")
        return "the account is as it was before"

    def stop(self) -> str:
        """Last step of every demo: stop the local cloud."""
        servers = self.cloud.servers()
        self.cloud.stop()
        alive = [server.name for server in servers if server.find_process()]
        require(not alive, f"still running: {alive}")
        require(not self.cloud.folder.exists(), f"{self.cloud.folder} is not empty")
        return "no processes or files left"

    def step(self, title: str, action: Callable[[], str], *, always: bool = False) -> None:
        result = StepResult(title)
        self.results.append(result)
        if not always and any(earlier.failed for earlier in self.results[:-1]):
            result.skipped, result.detail = True, "an earlier step failed"
            return
        self.console.print(title, style="bold")
        started = time.monotonic()
        try:
            result.detail = action()
            result.ok = True
        except StepSkipped as reason:
            result.skipped = True
            result.detail = str(reason)
        except Exception as error:  # show any error in the table, and still run the step that stops the cloud
            result.detail = str(error) if isinstance(error, StepFailed) else f"{type(error).__name__}: {error}"
        result.seconds = round(time.monotonic() - started, 1)
        self.console.print(Text.assemble("  ", format_mark(result), f" {result.seconds} s  "), end="")
        self.console.print(result.detail, markup=False, soft_wrap=True)

    def run_pulumi(self, verb: Verb) -> Run:
        """Run one Pulumi operation and log its output. With --verbose or after a failure, print the output as well."""
        with nullcontext() if self.verbose else show_progress(self.console, verb) as watch:
            run = self.stack.run(verb, stream=self.console.file if self.verbose else None, watch=watch)  # type: ignore[arg-type]
        with self.log.open("a") as log:
            log.write(f"$ pulumi {verb} -s {self.stack.name}\n{run.output}\n")
        if not run.ok:
            if not self.verbose:
                self.console.print(run.output, markup=False, soft_wrap=True)
            raise StepFailed("; ".join(run.errors) or f"pulumi {verb} exited with code {run.exit_code}")
        return run

    def command(self, *command: str, variables: Mapping[str, str] | None = None) -> str:
        """Run a program against the local cloud and return its output. Raises StepFailed."""
        environment = {**self.cloud.process_environment(), **(variables or {})}
        done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        self.log_output(command, done.stdout + done.stderr)
        if done.returncode:
            raise StepFailed(
                join_last_lines(done.stderr) or join_last_lines(done.stdout) or f"exited with code {done.returncode}"
            )
        return done.stdout

    def print_progress(self, line: str) -> None:
        """Print a progress line of a step."""
        self.console.print(f"  {line}", style="dim", markup=False, soft_wrap=True)

    def log_output(self, command: tuple[str, ...], said: str) -> None:
        """Add a command and its output to the log."""
        with self.log.open("a") as log:
            log.write(f"$ {shlex.join(command)}\n{said}\n")


def format_mark(result: StepResult) -> Text:
    word, style = ("skipped", "yellow") if result.skipped else ("ok", "green") if result.ok else ("failed", "red")
    return Text(word, style)


def join_last_lines(text: str) -> str:
    """Return the last lines of a failed program's output, joined into one line."""
    return "; ".join(text.strip().splitlines()[-3:])


def require(condition: bool, reason: str) -> None:
    if not condition:
        raise StepFailed(reason)


@contextmanager
def _lock_demo_folder(folder: Path, name: str) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CommandError(f"another demo is already running in {folder}", REFUSED) from None
        yield


def render_table(results: list[StepResult], seconds: float) -> Listing:
    rows = [(result.step, format_mark(result), f"{result.seconds:.1f}", result.detail) for result in results]
    total = (Text("total", "bold"), "", Text(f"{seconds:.1f}", "bold"), "")
    return Listing("step", "result", "seconds", "what happened", rows=[*rows, total], right=["seconds"])


def shorten_path(path: Path) -> str:
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


# --- progress of a Pulumi operation -----------------------------------------------------------------------------------

EVERY_SECONDS = 5.0
NAMED = 2
"""Maximum number of resources listed in a progress line."""


def format_progress(verb: Verb, events: EventLog, seconds: float) -> str:
    """Return a line like `up, 12 s: 57 resources done, working on gpumpi-local-cluster and 3 more`."""
    running, done = events.list_running_resources(), events.count_finished()
    if not running and not done:
        return f"{verb}, {seconds:.0f} s: Pulumi's engine and the program are starting"
    names = ", ".join(running[:NAMED])
    more = f" and {len(running) - NAMED} more" if len(running) > NAMED else ""
    working = f", working on {names}{more}" if names else ""
    return f"{verb}, {seconds:.0f} s: {done} resources done{working}"


@contextmanager
def show_progress(console: Console, verb: Verb) -> Iterator[Watch]:
    """Show progress: one updated line on a terminal, otherwise a new line every few seconds. Yield the callback."""
    if console.is_terminal:
        with console.status(f"{verb}: starting") as status:
            room = console.width - len("* ")
            yield lambda events, seconds: status.update(escape(format_progress(verb, events, seconds)[:room]))
        return
    printed = 0.0

    def print_line(events: EventLog, seconds: float) -> None:
        nonlocal printed
        if seconds - printed >= EVERY_SECONDS:
            printed = seconds
            console.print(f"  {format_progress(verb, events, seconds)}", style="dim", markup=False, soft_wrap=True)

    yield print_line
