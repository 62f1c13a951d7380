"""Errors that end a verb. Any module may raise them, and `cli.lazy.Program` reports them."""

import errno
import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from cli import installation, output
from cli.exit_codes import FAILED, INTERRUPTED, NOT_FOUND, REFUSED, UNREACHABLE

if TYPE_CHECKING:
    from infra.config.problems import Problem  # infra.config imports pydantic, which would slow down `--help`

CODES: Final = {
    "infra.config.problems.SettingsError": REFUSED,
    "infra.config.stack_file.NoSuchStack": NOT_FOUND,
    "infra.facts.model.FactsError": UNREACHABLE,
    "infra.facts.regions.UnknownRegion": REFUSED,
    "infra.recovery.pending_operations.Unknown": FAILED,
    "localcloud.control.ControlError": FAILED,
    "localcloud.hosts.capability.BadLimit": REFUSED,
    "localcloud.images.root.ImageError": FAILED,
    "localcloud.instance.NotOurFolder": REFUSED,
    "localcloud.instance.NotRunning": NOT_FOUND,
    "localcloud.machine.ledger.StillThere": FAILED,
    "localcloud.officials.NotInstalled": NOT_FOUND,
    "localcloud.processes.StartError": FAILED,
    "localcloud.stack.PulumiError": FAILED,
    "localcloud.tools.build.BuildError": FAILED,
}
"""Exit codes for exceptions of other packages. The messages of these exceptions are written for the user.

The exceptions are listed by name because importing them would slow down `--help`.
"""

DISK_FIXES: Final[Mapping[int, str]] = {
    errno.ENOSPC: "Free space on this disk, or write to another one",
    errno.EDQUOT: "Delete files, or ask for a higher quota",
    errno.EROFS: "This file system is read-only: write to another one",
    errno.EIO: "Check the disk: `dmesg` shows its errors",
}
"""Suggested fixes for errors that only files can have, even if the error has no path."""
FIXES: Final[Mapping[int, str]] = {
    **DISK_FIXES,
    **dict.fromkeys((errno.EACCES, errno.EPERM), "Change its permissions, or use another path"),
}


class CommandError(Exception):
    """A verb cannot continue. The message is one sentence: the reason and, where possible, the fix."""

    def __init__(self, message: str, code: int = FAILED, *, problems: Sequence["Problem"] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.problems = tuple(problems)
        """Errors and warnings of a rejected file."""


class NotFound(CommandError):
    """A job, namespace, file or cluster does not exist."""

    def __init__(self, message: str) -> None:
        super().__init__(message, NOT_FOUND)


class Forbidden(CommandError):
    """The caller lacks a permission in the cluster."""


class Conflict(CommandError):
    """Another client has changed or created the object."""

    def __init__(self, message: str) -> None:
        super().__init__(message, REFUSED)


def find_exit_code(error: BaseException) -> int | None:
    """Return the exit code for an error that the user can fix; None for a bug."""
    if isinstance(error, CommandError):
        return error.code
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    names = (f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__)
    return next((CODES[name] for name in names if name in CODES), FAILED if is_file_error(error) else None)


def is_file_error(error: BaseException) -> bool:
    """Return whether the error is about reading or writing a file, as opposed to a network connection."""
    if not isinstance(error, OSError) or isinstance(error, BrokenPipeError) or not error.strerror:
        return False
    return error.filename is not None or error.errno in DISK_FIXES


def format_problem(problem: "Problem") -> str:
    """Format a problem as one line of text. Warnings start with `warning:`."""
    return installation.make_pasteable(str(problem) if problem.is_error else f"warning: {problem}")


def serialize_problem(problem: "Problem") -> dict[str, str]:
    """Format a problem for a JSON document."""
    return {"path": problem.path, "message": installation.make_pasteable(problem.message), "severity": problem.severity}


def summarize_problems(name: str, number: int, undone: str) -> str:
    """The line below the problems of a rejected file or job, such as `a.yaml: 2 problems; nothing was created`."""
    return f"{name}: {number} problem{'' if number == 1 else 's'}; nothing was {undone}"


def describe_error(error: BaseException) -> str:
    """Return the message of an error; for an error of a file, with its path and a fix."""
    if not isinstance(error, OSError) or not is_file_error(error):
        return str(error)
    import tempfile  # slow to import

    # Only writes to temporary files have no path.
    path = error.filename or f"a temporary file in {tempfile.tempdir or os.environ.get('TMPDIR', '/tmp')}"
    name = os.fsdecode(path) if isinstance(path, bytes) else path
    fix = FIXES.get(error.errno or 0, "")
    return f"{name}: {str(error.strerror).lower()}.{fix and f' {fix}.'}"


def print_error(error: BaseException, code: int, verb: str, *, as_json: bool) -> None:
    """Print an error as one JSON document on stdout, or as text on stderr."""
    message = installation.make_pasteable(describe_error(error)) or (
        "interrupted" if code == INTERRUPTED else type(error).__name__
    )
    problems = error.problems if isinstance(error, CommandError) else ()
    if as_json and not (isinstance(error, OSError) and error.filename == output.NAME):
        listed = [serialize_problem(problem) for problem in problems]
        document = {"error": message, "exitCode": code, **({"problems": listed} if listed else {})}
        print(json.dumps(document, indent=1), flush=True)
        return
    with suppress(OSError):  # stderr is redirected to a full disk
        for problem in problems:
            print(format_problem(problem), file=sys.stderr)
        print(f"{' '.join(filter(None, (installation.NAME, verb)))}: {message}", file=sys.stderr, flush=True)
