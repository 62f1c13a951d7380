"""Standard output whose errors have a name, so that a full disk behind `> FILE` is reported as such, and only once."""

import io
from typing import Any, Final, TextIO

NAME: Final = "standard output"


class _Output(io.FileIO):
    """Stdout, which accepts and discards everything after its first error."""

    _has_failed = False

    def write(self, data: Any, /) -> int:
        if self._has_failed:
            return len(data)
        try:
            return super().write(data)
        except OSError as error:
            self._has_failed = True
            raise OSError(error.errno, error.strerror, NAME) from None


def wrap_stream(stdout: TextIO) -> TextIO:
    """Return a stream that writes to the same file; the same stream if it has no file, as in memory."""
    try:
        raw = _Output(stdout.fileno(), "wb", closefd=False)
    except io.UnsupportedOperation:
        return stdout
    by_line = stdout.isatty() or getattr(stdout, "write_through", False)  # PYTHONUNBUFFERED
    return io.TextIOWrapper(io.BufferedWriter(raw), stdout.encoding, stdout.errors, line_buffering=by_line)
