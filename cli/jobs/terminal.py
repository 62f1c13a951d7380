"""Connect this process's terminal or standard input to a command in a pod."""

import os
import shutil
import signal
import sys
import termios
import threading
import tty as terminals
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cli.clusters.pod_streams import Command

CHUNK = 65536


@contextmanager
def connected(command: Command, *, stdin: bool, tty: bool) -> Iterator[None]:
    """Forward standard input and, with `tty`, every key press and the window size."""
    if stdin:
        threading.Thread(target=_copy_input, args=(command, not tty), daemon=True).start()
    if not tty:
        yield
        return
    before, handler = termios.tcgetattr(sys.stdin), signal.getsignal(signal.SIGWINCH)

    def resize(*_: Any) -> None:
        size = shutil.get_terminal_size()
        command.resize(size.columns, size.lines)

    try:
        terminals.setraw(sys.stdin)
        signal.signal(signal.SIGWINCH, resize)
        resize()
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
