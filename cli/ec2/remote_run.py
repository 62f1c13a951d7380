"""Run a command on the head node so that it survives a lost connection.

The command runs in its own session and writes to a log on the head node. After a reconnect, output continues where the
previous connection ended.
"""

import json
import re
import secrets
import shlex
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import AnyStr, Final, Protocol

from cli.ec2.remote_restarts import wrap_in_restart_script

RUNS: Final = "~/.gpumpi/runs"
PAUSES: Final = (1.0, 2.0, 5.0, 10.0)
"""Seconds between attempts to reconnect; the last value repeats."""
GIVE_UP_SECONDS: Final = 900.0
"""How long to keep trying to reconnect: long enough for the head node to reboot."""
CHUNK: Final = 65536
SSH_FAILED: Final = 255
_ENDED = re.compile(rb"^gpumpi-run (\d+|lost|unknown)$", re.MULTILINE)

Command = Callable[[str], Sequence[str]]
"""Takes a bash script, and returns the command line that runs it on the head node."""


class Output(Protocol):
    """Receives the bytes of a log."""

    def write(self, data: bytes, /) -> object: ...

    def flush(self) -> object: ...


class Lost(Exception):
    """The outcome of the command cannot be determined."""


def generate_run_id() -> str:
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(3)}"


def render_start_script(id: str, words: Sequence[str], folder: str | None, restarts: int = 0) -> str:
    """Return a script that starts the command.

    Running the script again is safe: its mkdir succeeds only once, so the command starts only once.
    """
    line = shlex.join(words)
    if restarts:
        line = wrap_in_restart_script(line, restarts)
    place = f"cd {shlex.quote(folder)}" if folder else "cd"
    inner = f'{line}; code=$?; echo "$code" >"$GPUMPI_RUN/exit.part"; mv "$GPUMPI_RUN/exit.part" "$GPUMPI_RUN/exit"'
    return f"""set -e
run={RUNS}/{id}
mkdir -p {RUNS}
mkdir "$run" 2>/dev/null || exit 0
{place}
cat /proc/sys/kernel/random/boot_id >"$run/boot"
printf '%s\\n' {shlex.quote(json.dumps(list(words)))} >"$run/command"
GPUMPI_RUN=$run setsid bash -lc {shlex.quote(inner)} >"$run/log" 2>&1 </dev/null &
echo $! >"$run/pid.part"
mv "$run/pid.part" "$run/pid"
"""


def render_follow_script(id: str, offset: int) -> str:
    """Return a script that follows the log from `offset`, and prints the exit code to stderr when the command ends."""
    return f"""run={RUNS}/{id}
if ! test -e "$run/pid"; then echo 'gpumpi-run unknown' >&2; exit 0; fi
if test "$(cat "$run/boot")" = "$(cat /proc/sys/kernel/random/boot_id)"; then
  tail --bytes=+{offset + 1} --follow --pid="$(cat "$run/pid")" "$run/log"
  if kill -0 "$(cat "$run/pid")" 2>/dev/null; then exit 0; fi
else
  tail --bytes=+{offset + 1} "$run/log"
fi
echo "gpumpi-run $(cat "$run/exit" 2>/dev/null || echo lost)" >&2
"""


def render_stop_script(id: str) -> str:
    """Return a script that terminates the command and the processes that the command started."""
    return f'kill -TERM -- "-$(cat {RUNS}/{id}/pid)"\n'


def start_run(
    ssh: Command,
    id: str,
    words: Sequence[str],
    folder: str | None,
    restarts: int = 0,
    *,
    wait: Callable[[float], object] = time.sleep,
) -> None:
    """Start the command. Raises Lost with ssh's message if the head node is unreachable."""
    command = ssh(render_start_script(id, words, folder, restarts))
    done = run_with_retries(lambda: subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL), wait=wait)
    if done.returncode:
        raise Lost(done.stderr.strip() or f"ssh ended with {done.returncode}")


def run_with_retries(
    attempt: "Callable[[], subprocess.CompletedProcess[AnyStr]]", *, wait: Callable[[float], object] = time.sleep
) -> "subprocess.CompletedProcess[AnyStr]":
    """Run an ssh command; retry up to three times if ssh cannot connect or loses its connection. The command
    may therefore run more than once on the head node.
    """
    for pause in PAUSES[:3]:
        done = attempt()
        if done.returncode != SSH_FAILED or _is_permanent_error(done.stderr):
            return done
        wait(pause)
    return attempt()


def _is_permanent_error(message: str | bytes) -> bool:
    """Return whether ssh's error is permanent, so that another attempt to connect would also fail."""
    message = message.decode(errors="replace") if isinstance(message, bytes) else message
    return "Permission denied" in message or "Host key verification failed" in message


def follow_log(
    ssh: Command,
    id: str,
    output: Output,
    *,
    report: Callable[[str], None] = lambda line: None,
    wait: Callable[[float], object] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Copy the log to `output` as it grows; return the command's exit code. Raises Lost."""
    offset, failures, since = 0, 0, clock()
    while True:
        received, messages = _read_log(ssh(render_follow_script(id, offset)), output)
        offset += received
        ended = _ENDED.search(messages)
        reason = messages.decode(errors="replace").strip()
        if ended and ended[1].isdigit():
            return int(ended[1])
        if ended:
            if ended[1] == b"unknown":
                raise Lost(f"the head node has no run {id}")
            raise Lost(f"{id} ended without an exit code: it was killed, or the head node restarted")
        if received:
            failures, since = 0, clock()
        if clock() - since > GIVE_UP_SECONDS or _is_permanent_error(reason):
            raise Lost(f"{id} may still be running, but the head node is unreachable: {reason}")
        if failures == 0:
            report("the connection was lost; the command keeps running; reconnecting")
        wait(PAUSES[min(failures, len(PAUSES) - 1)])
        failures += 1


def _read_log(command: Sequence[str], output: Output) -> tuple[int, bytes]:
    """Read the log over one connection. Return the number of bytes received, and the stderr of ssh and the script."""
    received = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL) as ssh:
        assert ssh.stdout is not None and ssh.stderr is not None
        try:
            while chunk := ssh.stdout.read1(CHUNK):  # type: ignore[attr-defined]  # stdout is a BufferedReader
                output.write(chunk)
                output.flush()
                received += len(chunk)
            return received, ssh.stderr.read()
        except BaseException:
            ssh.kill()
            raise
