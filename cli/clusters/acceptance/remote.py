"""Run scripts on the nodes of an EC2 cluster, through the head node."""

import base64
import shlex
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from cli.ec2.ec2_instances import DeployedEc2Cluster, Ec2Node
from cli.ec2.head_node_ssh import to_head_node
from cli.errors import CommandError
from cli.exit_codes import UNREACHABLE

SSH: Final = "ssh -n -o BatchMode=yes -o ConnectTimeout=30"
SSH_COPY: Final = "scp -q -o BatchMode=yes -o ConnectTimeout=30"
SSH_FAILED: Final = 255
BEGIN: Final = "gpumpi-node"


class Remote:
    """SSH access to one cluster. Each call opens a new connection."""

    def __init__(self, cluster: DeployedEc2Cluster, identity: Path | None, minutes: float) -> None:
        self._cluster, self._identity, self._seconds = cluster, identity, minutes * 60

    def run(self, script: str, *, stdin: bytes = b"") -> tuple[int, str]:
        """Run a script on the head node; return its exit code and its output. Raises CommandError if ssh fails or the
        time limit expires.
        """
        with to_head_node(self._cluster, self._identity) as head_node:
            command = head_node.command("bash", "-lc", script)
            try:
                done = subprocess.run(command, input=stdin, capture_output=True, timeout=self._seconds, check=False)
            except subprocess.TimeoutExpired:
                raise CommandError(f"the head node did not answer within {self._seconds / 60:g} minutes (--minutes)") from None
        errors = done.stderr.decode(errors="replace")
        if done.returncode == SSH_FAILED:
            raise CommandError(f"the head node is unreachable: {errors.strip()}", UNREACHABLE)
        return done.returncode, done.stdout.decode(errors="replace") + errors

    def follow(self, script: str, on_line: Callable[[str], None]) -> tuple[int, list[str]]:
        """Run a script on the head node and call `on_line` with each line; return its exit code and all lines."""
        lines: list[str] = []
        with to_head_node(self._cluster, self._identity) as head_node:
            command = head_node.command("bash", "-lc", f"timeout {self._seconds:.0f} bash -c {shlex.quote(script)} 2>&1")
            with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as process:
                assert process.stdout is not None
                try:
                    for line in process.stdout:
                        lines.append(line.rstrip())
                        on_line(lines[-1])
                except BaseException:
                    process.kill()
                    raise
        return process.returncode, lines

    def everywhere(self, nodes: Sequence[Ec2Node], script: str) -> dict[str, tuple[int, str]]:
        """Run a script on each of `nodes`; return the exit code and the output of each, keyed by address."""
        quoted = shlex.quote(script)
        parts = []
        for node in nodes:
            start = f"bash -lc {quoted}" if node.is_head_node else f"{SSH} {node.address} bash -lc {shlex.quote(quoted)}"
            parts.append(f'out=$({start} 2>&1 </dev/null | base64 --wrap=0; exit "${{PIPESTATUS[0]}}")')
            parts.append(f'echo {BEGIN} {node.address} $? "$out"')
        code, output = self.run("\n".join(parts))
        found = {}
        for line in output.splitlines():
            if line.startswith(f"{BEGIN} "):
                _, address, ended, *text = line.split(" ")
                found[address] = (int(ended), base64.b64decode("".join(text)).decode(errors="replace"))
        if missing := [node.address for node in nodes if node.address not in found]:
            raise CommandError(f"no answer from {', '.join(missing)} (exit code {code}): {output.strip()[-300:]}", UNREACHABLE)
        return found

    def put(self, path: str, content: bytes) -> None:
        """Write a file on the head node."""
        code, said = self.run(f"cat >{shlex.quote(path)}", stdin=content)
        if code:
            raise CommandError(f"{path} could not be written on the head node: {said.strip()}")
