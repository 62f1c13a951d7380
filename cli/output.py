"""Streams of the program: text from outside cannot control the terminal, and errors of standard output have a type of
their own, so that a full disk behind `> FILE` is reported as such, and only once.

Job users, images and nodes choose much of what is printed. Escape sequences in it could write to the clipboard (OSC 52), set the
window's title or hide other lines. Therefore all text passes through `FilteredStream`, except the three functions below.
"""

import codecs
import io
import re
from typing import Any, Final, TextIO

NAME: Final = "standard output"

_CONTROLS: Final = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
"""Control characters (C0 without tab and newline, DEL, C1), bidirectional overrides, and lone surrogates, which cannot be
encoded. Bidirectional overrides: https://trojansource.codes/trojan-source.pdf"""
_CONTROL: Final = re.compile(_CONTROLS)
_CONTROL_EXCEPT_COLORS: Final = re.compile(rf"(\x1b\[[0-9;:]*[mK]|\r)|{_CONTROLS}")
"""The group matches what programs may send to a terminal: colors, and what progress bars need to rewrite their line."""
_UNFINISHED_COLOR: Final = re.compile(r"\x1b(\[[0-9;:]{0,32})?\Z")
RESET: Final = "\x1b[0m"


def escape_controls(text: str) -> str:
    r"""Return the text with control characters as visible escapes. Tabs and newlines stay.

    >>> escape_controls("a\x1b]52;c;eA==\x07\t\u202e")
    'a\\x1b]52;c;eA==\\x07\t\\u202e'
    """
    return _CONTROL.sub(lambda match: _format_escape(match[0]), text)


def escape_controls_except_colors(text: str) -> str:
    r"""Return the text like `escape_controls`, but keep colors and carriage returns.

    >>> escape_controls_except_colors("\x1b[31mred\x1b[0m\r\x1b[2J")
    '\x1b[31mred\x1b[0m\r\\x1b[2J'
    """
    return _CONTROL_EXCEPT_COLORS.sub(lambda match: match[1] or _format_escape(match[0]), text)


def _format_escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


class FilteredStream(io.TextIOWrapper):
    """Text stream that escapes control characters."""

    def write(self, text: str, /) -> int:
        super().write(escape_controls(text))
        return len(text)

    def write_unfiltered(self, text: str) -> int:
        return super().write(text)

    @property
    def rich_proxied_file(self) -> "_StyledStream":
        """The stream to which rich's consoles write, such as those of Typer's `--help`, when they print to the
        filtered stream."""
        return _StyledStream(self)


class _UnfilteredStream:
    """Writes to a filtered stream without its filter."""

    def __init__(self, stream: FilteredStream) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write_unfiltered(text)

    def __getattr__(self, name: str) -> Any:
        if name == "rich_proxied_file":  # rich would otherwise write to the filtered stream
            raise AttributeError(name)
        return getattr(self._stream, name)


class _StyledStream(_UnfilteredStream):
    """Writes to a filtered stream and keeps colors."""

    def write(self, text: str) -> int:
        return super().write(escape_controls_except_colors(text))


def open_unfiltered(stream: TextIO) -> TextIO:
    """Return a stream for text that is already escaped: `cli.console` escapes what it prints, and then styles it."""
    return _UnfilteredStream(stream) if isinstance(stream, FilteredStream) else stream  # type: ignore[return-value]


def print_log_line(line: str, file: TextIO) -> None:
    """Print a line of a job's log. A terminal gets colors, but no other control sequences; a file or a pipe gets the line
    unchanged."""
    if file.isatty():
        line = escape_controls_except_colors(line)
        line += RESET if "\x1b" in line else ""
    print(line, file=open_unfiltered(file), flush=True)


class RemoteOutput:
    """Copies the output of a remote program to a stream. A terminal gets colors, but no other control sequences; a file or a
    pipe gets the bytes unchanged."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._is_terminal = stream, stream.isatty()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        """Start of a color sequence whose end has not arrived yet."""

    def write(self, data: bytes) -> None:
        if not self._is_terminal:
            self._stream.buffer.write(data)
            return
        text = self._rest + self._decoder.decode(data)
        unfinished = _UNFINISHED_COLOR.search(text)
        end = unfinished.start() if unfinished else len(text)
        self._rest = text[end:]
        open_unfiltered(self._stream).write(escape_controls_except_colors(text[:end]))

    def flush(self) -> None:
        self._stream.flush()


class _Output(io.FileIO):
    """Stdout or stderr, which accepts and discards everything after its first error."""

    _has_failed = False

    def __init__(self, stream: TextIO, title: str) -> None:
        super().__init__(stream.fileno(), "wb", closefd=False)
        self._title = title

    def write(self, data: Any, /) -> int:
        if self._has_failed:
            return len(data)
        try:
            return super().write(data)
        except OSError as error:
            self._has_failed = True
            raise OSError(error.errno, error.strerror, self._title) from None


def wrap_stdout(stdout: TextIO) -> TextIO:
    """Return a filtered stream that writes to the same file; the same stream if it has no file, such as a stream in memory."""
    by_line = stdout.isatty() or getattr(stdout, "write_through", False)  # PYTHONUNBUFFERED
    return _wrap_stream(stdout, NAME, by_line=by_line)


def wrap_stderr(stderr: TextIO) -> TextIO:
    """Return a filtered stream that writes each line to the same file; the same stream if it has no file."""
    return _wrap_stream(stderr, "standard error", by_line=True)


def _wrap_stream(stream: TextIO, title: str, *, by_line: bool) -> TextIO:
    try:
        raw = _Output(stream, title)
    except io.UnsupportedOperation:
        return stream
    return FilteredStream(io.BufferedWriter(raw), stream.encoding, stream.errors, line_buffering=by_line)
