"""`exec`: run a command in a running pod of a job."""

import os
import shutil
import signal
import sys
import termios
import threading
import tty as terminals
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from cli import options
from cli.clusters.kubernetes_access import Access
from cli.clusters.pod_streams import STDERR, Command
from cli.ec2.run import exit_with_255_if_not_started
from cli.errors import CommandError
from cli.exit_codes import USAGE
from cli.jobs import objects
from cli.jobs.job_pods import find_running_container
from cli.output import RemoteOutput

CHUNK = 65536


def command(
    name: Annotated[str, typer.Argument(help="Job name.")],
    words: Annotated[list[str] | None, typer.Argument(metavar="-- COMMAND", help="The command and its arguments.")] = None,
    worker: options.Worker = 0,
    launcher: options.Launcher = False,
    stdin: Annotated[bool, typer.Option("--stdin", "-i", help="Pass standard input to the command.")] = False,
    *,
    access: Access,
    as_json: options.JsonErrors = False,
) -> int:
    """Example: `exec train --worker 1 -- nvidia-smi`.

    In a terminal, the command also gets a terminal: `exec train -- bash`. The exit code is that of the command.
    """
    if not words:
        raise CommandError("give a command after --, such as `-- nvidia-smi`", USAGE)
    tty = sys.stdin.isatty() and sys.stdout.isatty()
    with exit_with_255_if_not_started():
        cluster = access.connect()
        state = objects.find_job(cluster, name, objects.choose_namespace(cluster, access.namespace))
        where = find_running_container(cluster, state, worker, launcher=launcher)
        running = Command(cluster, where, words, stdin=stdin or tty, tty=tty)
        with forward_input(running, stdin=stdin or tty, tty=tty):
            return running.wait(_write_to_terminal if tty else _copy_output())


def _write_to_terminal(channel: int, data: bytes) -> None:
    """Write the bytes of an interactive session, in which editors and pagers control the terminal."""
    sys.stdout.buffer.write(data)
    sys.stdout.flush()


def _copy_output() -> Callable[[int, bytes], None]:
    outputs = {STDERR: RemoteOutput(sys.stderr)}
    stdout = RemoteOutput(sys.stdout)

    def copy_chunk(channel: int, data: bytes) -> None:
        output = outputs.get(channel, stdout)
        output.write(data)
        output.flush()

    return copy_chunk


@contextmanager
def forward_input(command: Command, *, stdin: bool, tty: bool) -> Iterator[None]:
    """Forward standard input and, with `tty`, every key press and the window size."""
    if stdin:
        threading.Thread(target=_copy_input, args=(command, not tty), daemon=True).start()
    if not tty:
        yield
        return
    before, handler = termios.tcgetattr(sys.stdin), signal.getsignal(signal.SIGWINCH)

    def send_window_size(*_: Any) -> None:
        size = shutil.get_terminal_size()
        command.resize(size.columns, size.lines)

    try:
        terminals.setraw(sys.stdin)
        signal.signal(signal.SIGWINCH, send_window_size)
        send_window_size()
        yield
    finally:
        signal.signal(signal.SIGWINCH, handler)
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _copy_input(command: Command, end_input: bool) -> None:
    import websocket

    try:
        while data := os.read(sys.stdin.fileno(), CHUNK):
            command.send(data)
        if end_input:
            command.end_input()
    except (OSError, websocket.WebSocketException):
        return  # the command has ended
