"""Surface: texts of jobs, logs, nodes and images -> the terminal of the user.

The judge reads what a terminal gets: it may contain colors, but no other control sequence. All visible text must arrive.
"""

import io
import re
from random import Random
from typing import Any, Final
from unittest import mock

from bench.trust.inputs import draw_text
from bench.trust.judge import Judge
from cli import output
from cli.console import make_console, say

CONTROLS: Final = (
    "\x1b",
    "\x07",
    "\x08",
    "\r",
    "\x7f",
    "\x9b",
    "\x9d",
    "\u202e",
    "\u2066",
    "\ud800",
    "\x00",
    "\x1b]52;c;aWQ=\x07",
    "\x1b[2J",
)
COLOR: Final = re.compile(r"\x1b\[[0-9;:]*[mK]|\r")
CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class Terminal(io.BytesIO):
    """Bytes that reach a terminal."""

    def isatty(self) -> bool:
        return True

    def close(self) -> None:
        """Keep the bytes."""


def open_terminal() -> tuple[Terminal, output.FilteredStream]:
    terminal = Terminal()
    return terminal, output.FilteredStream(terminal, "utf-8", "strict", write_through=True)


def draw_line(random: Random) -> str:
    """Return a line with control characters between visible words."""
    parts = [random.choice((draw_text(random), *CONTROLS, "word", "\x1b[3", "1m")) for _ in range(random.randrange(1, 8))]
    return "".join(parts).replace("\n", " ")


def print_as(kind: int, text: str, stream: Any) -> bool:
    """Print a text with one of the functions of the CLI. Return whether that function keeps colors."""
    match kind:
        case 0:
            print(text, file=stream, flush=True)
        case 1:
            with mock.patch("sys.stdout", stream):
                make_console().print(text)
        case 2:
            with mock.patch("sys.stderr", stream):
                say(text)
        case 3:
            output.print_log_line(text, stream)
            return True
        case _:
            remote = output.RemoteOutput(stream)
            data = text.encode(errors="surrogateescape" if not re.search("[\ud800-\udc7f\udd00-\udfff]", text) else "replace")
            for begin in range(0, len(data), 3):
                remote.write(data[begin : begin + 3])
            remote.flush()
            return True
    return False


def judge_output(judge: Judge, text: str, received: str, *, keeps_colors: bool) -> None:
    plain = COLOR.sub("", received) if keeps_colors else received
    if control := CONTROL.search(plain):
        judge.report("executed", f"{text!r} sent {control[0]!r}: {received!r}")
    words = re.findall("word", text)
    judge.require(received.count("word") >= len(words), "lost", f"{text!r} became {received!r}")


def try_terminal(judge: Judge, random: Random, count: int) -> None:
    for number in range(count):
        text = draw_line(random)
        terminal, stream = open_terminal()
        with judge.attempt():
            keeps_colors = print_as(number % 5, text, stream)
            stream.flush()
            received = terminal.getvalue().decode("utf-8", "surrogatepass")
            judge_output(judge, text, received, keeps_colors=keeps_colors)
