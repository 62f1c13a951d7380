"""A command on the master that does not depend on the connection through which it was started.

It runs in a session of its own and writes to a log there. Whoever looks on reads the log from where the last look ended, as often
as the connection breaks.
"""

import json
import re
import secrets
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import BinaryIO, Final

RUNS: Final = "~/.gpumpi/runs"
PAUSES: Final = (1.0, 2.0, 5.0, 10.0)
"""Seconds between attempts to come back; the last one again and again."""
GIVE_UP_SECONDS: Final = 900.0
"""A master that reboots is back by then."""
CHUNK: Final = 65536
SSH_FAILED: Final = 255
_ENDED = re.compile(rb"^gpumpi-run (\d+|lost|unknown)$", re.MULTILINE)

Command = Callable[[str], Sequence[str]]
"""A script for the master's bash -> the command line that runs it there."""


class Lost(Exception):
    """What became of the command cannot be known."""


def new_id() -> str:
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(3)}"


def start_script(id: str, words: Sequence[str], folder: str | None) -> str:
    """Start it once, however often this is sent: the folder can be made only once."""
    line = shlex.join(words)
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


def follow_script(id: str, offset: int) -> str:
    """The log from `offset` until the command's end, and how it ended on standard error."""
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


def stop_script(id: str) -> str:
    """End the command and what it started there."""
    return f'kill -TERM -- "-$(cat {RUNS}/{id}/pid)"\n'


def start(
    ssh: Command, id: str, words: Sequence[str], folder: str | None, *, wait: Callable[[float], object] = time.sleep
) -> None:
    """Raises Lost with ssh's own words where the master cannot be reached."""
    for pause in (*PAUSES[:3], None):
        done = subprocess.run(ssh(start_script(id, words, folder)), capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode == 0:
            return
        if done.returncode != SSH_FAILED or pause is None or _hopeless(done.stderr):
            raise Lost(done.stderr.strip() or f"ssh ended with {done.returncode}")
        wait(pause)


def _hopeless(said: str) -> bool:
    """What another attempt does not change."""
    return "Permission denied" in said or "Host key verification failed" in said


def follow(
    ssh: Command,
    id: str,
    output: BinaryIO,
    *,
    report: Callable[[str], None] = lambda line: None,
    wait: Callable[[float], object] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Write the log as it grows; the command's exit code. Raises Lost."""
    offset, failures, since = 0, 0, clock()
    while True:
        received, said = _look(ssh(follow_script(id, offset)), output)
        offset += received
        ended = _ENDED.search(said)
        if ended and ended[1].isdigit():
            return int(ended[1])
        if ended:
            known = "it is not known on the master" if ended[1] == b"unknown" else "the master was restarted, or it was killed"
            raise Lost(f"{id} ended without an exit code: {known}")
        if received:
            failures, since = 0, clock()
        if clock() - since > GIVE_UP_SECONDS or _hopeless(said.decode(errors="replace")):
            raise Lost(f"{id} may still run, but the master cannot be reached: {said.decode(errors='replace').strip()}")
        if failures == 0:
            report("the connection broke; the command runs on, reconnecting")
        wait(PAUSES[min(failures, len(PAUSES) - 1)])
        failures += 1


def _look(command: Sequence[str], output: BinaryIO) -> tuple[int, bytes]:
    """One connection: how many bytes of the log came, and what ssh and the script said."""
    received = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL) as ssh:
        assert ssh.stdout is not None and ssh.stderr is not None
        try:
            while chunk := ssh.stdout.read1(CHUNK):  # type: ignore[attr-defined]  # a BufferedReader, which has it
                output.write(chunk)
                output.flush()
                received += len(chunk)
            return received, ssh.stderr.read()
        except BaseException:
            ssh.kill()
            raise


def stdout() -> BinaryIO:
    return sys.stdout.buffer
