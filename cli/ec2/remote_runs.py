"""Commands that `run` started on the head node of an EC2 cluster: list them, read their logs, delete them."""

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Final

from cli.console import Listing, print_json, print_result, say
from cli.durations import format_duration
from cli.ec2 import remote_run
from cli.ec2.ec2_instances import DeployedEc2Cluster
from cli.ec2.head_node_ssh import HeadNodeSsh, connect_to_head_node
from cli.ec2.remote_run import RUNS
from cli.errors import CommandError, NotFound
from cli.exit_codes import FAILED, OK, UNREACHABLE
from cli.installation import NAME
from cli.jobs.workdir.selection import Selection, select_files
from cli.jobs.workdir.sending import send_files
from cli.output import RemoteOutput

FOLDER: Final = ".gpumpi/runs"
"""Folder on the shared file system for the folders that `run --workdir` sends."""

_LIST: Final = f"""
now=$(cat /proc/sys/kernel/random/boot_id)
for run in {RUNS}/*/; do
  [ -e "$run/command" ] || continue
  state=lost
  if [ -e "$run/exit" ]; then
    state=$(cat "$run/exit")
  elif [ "$(cat "$run/boot")" = "$now" ] && kill -0 "$(cat "$run/pid" 2> /dev/null)" 2> /dev/null; then
    state=running
  fi
  ended=$(stat -c %Y "$run/exit" 2> /dev/null || echo -)
  printf '%s\\t%s\\t%s\\t%s\\t%s\\t%s\\n' "$(basename "$run")" "$state" "$(stat -c %Y "$run/command")" "$ended" \
    "$(cat "$run/restarts" 2> /dev/null || echo 0)" "$(cat "$run/command")"
done
"""
"""Script that lists the runs. The modification times of `command` and `exit` are the start and the end of a run,
because each file is written only once.
"""


@dataclass(frozen=True)
class Run:
    """A command on the head node; one row of `jobs --stack`."""

    id: str
    state: str
    """`running`, `lost` or an exit code."""
    started: datetime
    ended: datetime | None
    restarts: int
    command: tuple[str, ...]

    @property
    def phase(self) -> str:
        if self.state == "running":
            return "Running"
        return "Succeeded" if self.state == "0" else "Failed"

    @property
    def reason(self) -> str:
        if self.state == "lost":
            return "killed, or the head node restarted"
        return f"exit code {self.state}" if self.phase == "Failed" else ""

    def seconds(self, now: datetime) -> int | None:
        """Return how long the command ran; None if this is unknown."""
        end = now if self.state == "running" else self.ended
        return max(0, int((end - self.started).total_seconds())) if end else None

    def as_json(self, now: datetime) -> dict[str, object]:
        return {
            "name": self.id,
            "phase": self.phase,
            "reason": self.reason,
            "restarts": self.restarts,
            "created": self.started.isoformat(),
            "ended": self.ended.isoformat() if self.ended else None,
            "seconds": self.seconds(now),
            "command": list(self.command),
        }


def parse_runs(text: str) -> list[Run]:
    """Parse the output of `_LIST`, and return the runs, newest first.

    >>> [(run.id, run.phase, run.command) for run in parse_runs('a\\t0\\t1\\t2\\t0\\t["true"]\\n')]
    [('a', 'Succeeded', ('true',))]
    """
    runs = []
    for line in text.splitlines():
        id, state, started, ended, restarts, command = line.split("\t", 5)
        end = parse_time(ended) if ended != "-" else None
        runs.append(Run(id, state, parse_time(started), end, int(restarts), tuple(json.loads(command))))
    return sorted(runs, key=lambda run: (run.started, run.id), reverse=True)


def parse_time(seconds: str) -> datetime:
    return datetime.fromtimestamp(int(seconds), UTC)


@dataclass(frozen=True)
class Runs:
    """The runs on one head node."""

    cluster: DeployedEc2Cluster
    head_node: HeadNodeSsh

    def build_bash_command(self, script: str) -> Sequence[str]:
        return self.head_node.command("bash", "-c", script)

    def list(self) -> "list[Run]":
        return parse_runs(self._run_script(_LIST))

    def find(self, id: str) -> Run:
        match = next((run for run in self.list() if run.id == id), None)
        if match is None:
            raise NotFound(f"the head node of {self.cluster.naming.cluster} has no run {id}")
        return match

    def log(self, id: str) -> str:
        self.find(id)
        return self._run_script(f"cat {RUNS}/{shlex.quote(id)}/log")

    def delete(self, id: str) -> Run:
        """Stop a run, and delete its record, its log and the folder that was sent for it."""
        run = self.find(id)
        quoted = shlex.quote(id)
        stop = remote_run.render_stop_script(quoted) if run.state == "running" else ""
        folder = f" {shlex.quote(self.get_sent_folder_path(id))}" if self.cluster.shared else ""
        self._run_script(f"{stop}rm -rf {RUNS}/{quoted}{folder}")
        return run

    def get_sent_folder_path(self, id: str) -> str:
        return f"{self.cluster.shared}/{FOLDER}/{id}"

    def send(self, selection: Selection, id: str) -> str:
        """Send a folder to the shared file system; return its path there."""

        def run_remote_command(words: Sequence[str], stdin: IO[bytes]) -> "subprocess.CompletedProcess[bytes]":
            def run_once() -> "subprocess.CompletedProcess[bytes]":
                stdin.seek(0)
                return subprocess.run(self.head_node.command(*words), stdin=stdin, capture_output=True, check=False)

            return remote_run.run_with_retries(run_once)

        folder = self.get_sent_folder_path(id)
        sent = send_files(selection, run_remote_command, f"{self.cluster.shared}/{FOLDER}", folder)
        for left_out in selection.left_out:
            say(f"{NAME}: not sent: {left_out}")
        say(f"{NAME}: sent {sent} from {selection.root}")
        return f"{folder}/workdir"

    def _run_script(self, script: str) -> str:
        """Run a script on the head node and return its output. The script may run twice, because failed connections are
        retried.
        """
        command = self.build_bash_command(script)
        done = remote_run.run_with_retries(
            lambda: subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
            )
        )
        if done.returncode:
            raise CommandError(done.stderr.strip() or f"ssh ended with {done.returncode}", UNREACHABLE)
        return done.stdout


@contextmanager
def connect_to_runs(stack: str, config_dir: Path, identity: Path | None) -> Iterator[Runs]:
    cluster = DeployedEc2Cluster(stack, config_dir)
    with connect_to_head_node(cluster, identity) as head_node:
        yield Runs(cluster, head_node)


def select_workdir(cluster: DeployedEc2Cluster, folder: Path, limit_mib: int) -> Selection:
    """Select the files of a folder to send. Raises CommandError if they cannot be sent."""
    if not cluster.shared:
        fix = "Set storage.efs in the stack, or copy the folder into the AMI"
        raise CommandError(
            f"--workdir: {cluster.naming.cluster} has no shared file system to which the folder could be sent. {fix}."
        )
    return select_files(folder, limit_mib)


# --- verbs that also exist for Kubernetes clusters --------------------------------------------------------------------


def print_list(runs: "list[Run]", *, as_json: bool) -> int:
    now = datetime.now(UTC)
    times = ["" if (seconds := run.seconds(now)) is None else format_duration(seconds) for run in runs]
    rows = [
        (run.id, run.phase, str(run.restarts or ""), time, shlex.join(run.command), run.reason)
        for run, time in zip(runs, times, strict=True)
    ]
    text = Listing("name", "phase", "restarts", "time", "command", "reason", rows=rows) if runs else "no runs on the head node"
    return print_result([run.as_json(now) for run in runs], text, as_json=as_json)


def print_log(runs: Runs, id: str, *, follow: bool, as_json: bool) -> int:
    """Print a run's log. With `follow`, return 0 or 1, like `logs` for jobs."""
    if follow:
        runs.find(id)
        out = RemoteOutput(sys.stderr if as_json else sys.stdout)
        code = remote_run.follow_log(runs.build_bash_command, id, out, report=say)
        if as_json:
            print_json(runs.find(id).as_json(datetime.now(UTC)))
        return FAILED if code else OK
    text = runs.log(id)
    if as_json:
        print_json({**runs.find(id).as_json(datetime.now(UTC)), "lines": text.splitlines()})
    else:
        RemoteOutput(sys.stdout).write(text.encode())
    return OK
