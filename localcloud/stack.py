"""Run plain `pulumi` for a stack on a local cloud. The operations use a copy of the stack file, so the user's file never changes.

Pulumi writes the passphrase provider's salt and the values of `pulumi config set` to the stack file that it uses. The
copies are in the local cloud's project folder. `main` in that folder's Pulumi.yaml points to the Pulumi program in the
repository.
"""

import codecs
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TextIO

import yaml

from infra.config import stack_file
from infra.recovery import recover_stack
from infra.recovery.pending_operations import Report
from localcloud.engine_events import EventLog, Step
from localcloud.instance import PROJECT, LocalCloud
from localcloud.processes import ROOT

Verb = Literal["preview", "up", "refresh", "destroy"]
WATCH_EVERY_SECONDS = 1.0
SERVICES = ("autoscaling", "ec2", "ecr", "efs", "eks", "fsx", "iam", "kms", "logs", "s3", "s3control", "ssm", "sts")
"""AWS services that the Pulumi program uses. An official provider is configured to send their API calls to the local
AWS."""
Watch = Callable[[EventLog, float], None]
"""Callback that receives the operation's events so far and the seconds since its start."""


@dataclass(frozen=True)
class Run:
    """Result of a `pulumi` command."""

    verb: Verb
    exit_code: int
    seconds: float
    changes: dict[str, int]
    """Number of resources per operation: create, update, replace, delete, same."""
    steps: tuple[Step, ...] = ()
    errors: tuple[str, ...] = ()
    """Error messages that the engine prints to the user."""
    output: str = field(default="", repr=False)

    @property
    def ok(self) -> bool:
        return self.exit_code == 0

    @property
    def changed(self) -> dict[str, int]:
        """Number of changed resources per operation."""
        return {operation: count for operation, count in self.changes.items() if operation != "same"}


class PulumiError(Exception):
    """A `pulumi` command failed. The message is the command's output."""


class LocalStack:
    """A stack of a local cloud: its copy of the stack file, and the `pulumi` commands for it."""

    def __init__(self, cloud: LocalCloud, name: str, source: Path | None = None) -> None:
        """`source` is the folder that contains Pulumi.<name>.yaml; the default is stacks/ in the repository."""
        self.cloud = cloud
        self.name = name
        self.folder = source or ROOT / "stacks"
        self.project = cloud.folder / "project"
        self.config_file = self.project / f"Pulumi.{name}.yaml"

    @property
    def source(self) -> Path:
        """The user's stack file. Raises stack_file.NoSuchStack."""
        return stack_file.find_stack_file(self.name, self.folder)

    @property
    def region(self) -> str:
        """Region of the stack, from the copied stack file."""
        return stack_file.read_stack_file(self.config_file).region

    def prepare(self) -> None:
        """Copy the current stack file, and create the stack in the local backend if it does not exist there."""
        source = self.source
        self.cloud.require_running()
        self._copy_stack_file(source)
        self._run_pulumi("stack", "select", "--create", "--stack", self.name)

    def create_prerequisites(self) -> list[str]:
        """In the local account, create the prerequisites to which the stack refers. Return the names of these
        prerequisites."""
        raw = stack_file.read_stack_file(self.source)
        if stack_file.uses_existing_cluster(raw.values):
            return []  # the stack does not use any AWS resources
        return self.cloud.control().create_prerequisites(raw.region, raw.values)

    def set_config(self, path: str, value: str) -> None:
        """Run `pulumi config set --path` on the copy, for example for `gpumpi:pools[0].maxSize`."""
        self._run_pulumi("config", "set", "--stack", self.name, "--path", path, value)

    def outputs(self, *, secrets: bool = False) -> dict[str, Any]:
        options = ("--show-secrets",) if secrets else ()
        text = self._run_pulumi("stack", "output", "--json", "--stack", self.name, *options)
        outputs: dict[str, Any] = json.loads(text)
        return outputs

    def export_state(self) -> dict[str, Any]:
        """Return the stack's state."""
        state: dict[str, Any] = json.loads(self._run_pulumi("stack", "export", "--stack", self.name))
        return state

    def recover(self, report: Report = print) -> recover_stack.Recovered:
        """Recover from a killed engine: remove the lock, repair the state file, and resolve pending operations."""
        self.unlock()
        return recover_stack.recover(self._run_pulumi, self.name, self.cloud.clients, report)

    def repair_state_files(self) -> None:
        """Repair state files that a killed engine left truncated."""
        recover_stack.repair_backend(self.cloud.environment()["PULUMI_BACKEND_URL"], PROJECT, self.name)

    def unlock(self) -> None:
        """Remove the lock left by a killed engine. `pulumi cancel` alone works only if the state file is intact."""
        self.repair_state_files()
        self._run_pulumi("cancel", "--yes", "--stack", self.name)

    def remove(self) -> None:
        """Remove an empty stack from the backend."""
        self._run_pulumi("stack", "rm", "--yes", "--preserve-config", "--stack", self.name)

    def run(
        self,
        verb: Verb,
        *extra: str,
        stream: TextIO | None = None,
        watch: Watch | None = None,
    ) -> Run:
        """Run a Pulumi operation to completion. Write the operation's output to `stream` as it appears and call
        `watch` every second."""
        started = time.monotonic()
        with (
            self.start_operation(verb, *extra) as (process, events),
            _poll_in_background(watch, events, started),
            _forward_interrupts(process),
        ):
            output = _copy_output(process, stream)
            process.wait()
        seconds = time.monotonic() - started
        return Run(verb, process.returncode, seconds, events.changes, tuple(events.steps), tuple(events.errors), output)

    @contextmanager
    def start_operation(self, verb: Verb, *extra: str) -> Iterator[tuple[subprocess.Popen[str], EventLog]]:
        """Start a Pulumi operation and yield its process and events, for callers that interrupt the operation."""
        events = EventLog(self.project / f"{self.name}.{verb}.events.json")
        options = ["--stack", self.name, "--non-interactive", "--event-log", str(events.file)]
        options += ["--color", "never", *([] if verb == "preview" else ["--yes", "--skip-preview"])]
        try:
            with subprocess.Popen(
                ["pulumi", verb, *options, *extra],
                cwd=self.project,
                # This variable enables --event-log, which is a debugging option.
                env=self.cloud.process_environment() | {"PULUMI_DEBUG_COMMANDS": "true"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                process_group=0,  # `run` forwards ^C, so the terminal must not send it to the engine as well
            ) as process:
                try:
                    yield process, events
                except BaseException:  # the caller failed; let the engine shut down cleanly
                    if process.poll() is None:
                        process.send_signal(signal.SIGINT)
                        process.communicate()
                    raise
        finally:
            events.close()

    def _run_pulumi(self, *arguments: str, text: str | None = None) -> str:
        result = subprocess.run(
            ["pulumi", *arguments, "--non-interactive"],
            cwd=self.project,
            env=self.cloud.process_environment(),
            input=text or "",
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode:
            raise PulumiError(f"pulumi {' '.join(arguments)}: {result.stderr.strip() or result.stdout.strip()}")
        return result.stdout

    def _copy_stack_file(self, source: Path) -> None:
        self.project.mkdir(parents=True, exist_ok=True)
        self._write_project_file()
        salt, text = _read_salt_line(self.config_file), source.read_text()
        self.config_file.write_text(text if "encryptionsalt:" in text else text + salt)
        if not self.cloud.has_kubernetes:
            self._remove_platform_and_jobs()
        if "aws" not in self.cloud.emulators:
            self._use_local_aws_endpoints()

    def _use_local_aws_endpoints(self) -> None:
        """Send the official provider's API calls to the local AWS. NOT VERIFIED: never run.

        Calls to S3 Control go to a host name with the account as prefix, which does not resolve
        (123456789012.127.0.0.1). Go uses a proxy only for such names, not for loopback addresses, so the local AWS is
        the proxy. Settings: https://www.pulumi.com/registry/packages/aws/api-docs/provider/ (2026-11-23)
        """
        content, url = yaml.safe_load(self.config_file.read_text()), self.cloud.server("aws").url
        content["config"] |= {
            "aws:endpoints": [dict.fromkeys(SERVICES, url)],
            "aws:httpProxy": url,
            "aws:s3UsePathStyle": True,
            "aws:skipCredentialsValidation": True,
            "aws:skipMetadataApiCheck": True,
        }
        self.config_file.write_text(yaml.safe_dump(content, sort_keys=False))

    def _remove_platform_and_jobs(self) -> None:
        """Remove the platform and the jobs from an EKS stack: a cluster that exists only as an API record cannot run
        them."""
        try:
            content = yaml.safe_load(self.config_file.read_text())
            config = content["config"]
            if config.get("gpumpi:target", {}).get("kind") != "eks":
                return
            platform = config.get("gpumpi:platform") or {}
            config["gpumpi:platform"] = {**platform, "install": False}
            config.pop("gpumpi:jobs", None)
        except (yaml.YAMLError, AttributeError, KeyError, TypeError):
            return  # the configuration parser reports the error
        self.config_file.write_text(yaml.safe_dump(content, sort_keys=False))

    def _write_project_file(self) -> None:
        project = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())
        # Use this interpreter's environment, so that an official language host uses the same packages.
        project["runtime"] = {"name": "python", "options": {"virtualenv": sys.prefix}}
        project["main"] = str(ROOT)
        project["stackConfigDir"] = "."
        (self.project / "Pulumi.yaml").write_text(yaml.safe_dump(project, sort_keys=False))


def _copy_output(process: subprocess.Popen[str], stream: TextIO | None) -> str:
    """Copy the engine's output, including progress dots, to `stream` as it arrives. Return the whole output."""
    assert process.stdout is not None
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    parts: list[str] = []
    while True:
        data = os.read(process.stdout.fileno(), 65536)
        part = decoder.decode(data, final=not data)
        parts.append(part)
        if stream is not None:
            stream.write(part)
            stream.flush()
        if not data:
            return "".join(parts)


@contextmanager
def _forward_interrupts(process: subprocess.Popen[str]) -> Iterator[None]:
    """Forward ^C to the engine while waiting for it to exit.

    The first ^C cancels the operation gracefully, and the second terminates it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # Do not touch signals that are already ignored, as in a shell's background jobs
    ours = [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) is signal.default_int_handler]
    for number in ours:
        signal.signal(number, lambda *_: process.send_signal(signal.SIGINT))
    try:
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.default_int_handler)


@contextmanager
def _poll_in_background(watch: Watch | None, events: EventLog, started: float) -> Iterator[None]:
    if watch is None:
        yield
        return
    ended = threading.Event()

    def poll() -> None:
        while not ended.wait(WATCH_EVERY_SECONDS):
            watch(events, time.monotonic() - started)

    watcher = threading.Thread(target=poll, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()


def _read_salt_line(config_file: Path) -> str:
    """Return Pulumi's salt line from the previous copy: without it, existing secrets could not be decrypted."""
    if not config_file.exists():
        return ""
    lines = [line for line in config_file.read_text().splitlines() if line.startswith("encryptionsalt:")]
    return f"\n{lines[0]}\n" if lines else ""
