"""Small Pulumi projects, run by the real engine on a local cloud."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localcloud.engine_events import EventLog
from localcloud.instance import LocalCloud

REGION = "us-west-2"


@dataclass(frozen=True)
class Outcome:
    """Result of one command."""

    exit_code: int
    changes: Mapping[str, int]
    """Number of resources per operation, excluding unchanged ones."""
    errors: tuple[str, ...]
    output: str

    @property
    def ok(self) -> bool:
        return self.exit_code == 0


@dataclass(frozen=True)
class Project:
    """A project folder with a Pulumi program and one of its stacks."""

    cloud: LocalCloud
    folder: Path
    stack: str = "dev"

    def write(self, program: str, name: str = "__main__.py") -> None:
        (self.folder / name).write_text(textwrap.dedent(program))

    def create(self, program: str, region: str = REGION) -> None:
        """Create a project with this program and a stack in `region`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        # An official language host runs the first python on PATH unless the project names a virtual environment
        runtime = f"runtime: {{name: python, options: {{virtualenv: {json.dumps(sys.prefix)}}}}}"
        (self.folder / "Pulumi.yaml").write_text(f"name: tiny\n{runtime}\n")
        self.write(program)
        self.add_stack(self.stack, region)

    def add_stack(self, name: str, region: str) -> "Project":
        other = Project(self.cloud, self.folder, name)
        other.run_pulumi("stack", "init", "--stack", name)
        other.configure("aws:region", region)
        return other

    def configure(self, key: str, value: str, *options: str) -> None:
        self.run_pulumi("config", "set", "--stack", self.stack, *options, key, value)

    def run(self, verb: str, *extra: str) -> Outcome:
        """Run a Pulumi command to completion. Return the result even if the command fails."""
        with self.run_in_background(verb, *extra) as (process, events):
            output, _ = process.communicate()
        changes = {operation: count for operation, count in events.changes.items() if operation != "same"}
        return Outcome(process.returncode, changes, tuple(events.errors), output)

    @contextmanager
    def run_in_background(self, verb: str, *extra: str) -> Iterator[tuple[subprocess.Popen[str], EventLog]]:
        events = EventLog(self.folder / f"{self.stack}.events.json")
        yes = () if verb == "preview" else ("--yes", "--skip-preview")
        command = ["pulumi", verb, "--stack", self.stack, "--non-interactive", "--event-log", str(events.file), *yes, *extra]
        try:
            with subprocess.Popen(
                [*command, "--color", "never"],
                cwd=self.folder,
                env=self.cloud.process_environment() | {"PULUMI_DEBUG_COMMANDS": "true"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            ) as process:
                yield process, events
        finally:
            events.close()

    def state(self) -> dict[str, dict[str, Any]]:
        """Return the resources in the stack's state, keyed by logical name."""
        exported = json.loads(self.run_pulumi("stack", "export", "--stack", self.stack))
        resources = exported["deployment"].get("resources", [])
        return {resource["urn"].split("::")[-1]: resource for resource in resources}

    def run_pulumi(self, *arguments: str, text: str | None = None) -> str:
        """Run a `pulumi` command with `text` on standard input and return its output."""
        result = subprocess.run(
            ["pulumi", *arguments, "--non-interactive"],
            cwd=self.folder,
            env=self.cloud.process_environment(),
            input=text or "",
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, result.stderr or result.stdout
        return result.stdout


def kill_engine(process: subprocess.Popen[str]) -> None:
    """Kill the engine without giving it time to clean up."""
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


def create_client(cloud: LocalCloud, service: str, region: str = REGION) -> Any:
    """Return a client for the local AWS, to make changes outside Pulumi."""
    return cloud.clients(region)(service)


def call_control_api(cloud: LocalCloud, method: str, path: str, body: Any = None) -> Any:
    """Send a request to the local AWS's control API."""
    return cloud.control().send(method, path, body)
