"""Errors that end a verb: raised anywhere, reported in one place (`cli.lazy.Program`)."""

import json
import sys
from collections.abc import Sequence
from typing import Any, Final

from cli import installation
from cli.exit_codes import FAILED, INTERRUPTED, NOT_FOUND, REFUSED, UNREACHABLE

CODES: Final = {
    "infra.config.stack_file.NoSuchStack": NOT_FOUND,
    "infra.facts.model.FactsError": UNREACHABLE,
    "infra.recovery.pending_operations.Unknown": FAILED,
    "localcloud.control.ControlError": FAILED,
    "localcloud.hosts.capability.BadLimit": REFUSED,
    "localcloud.images.root.ImageError": FAILED,
    "localcloud.instance.NotOurFolder": REFUSED,
    "localcloud.instance.NotRunning": NOT_FOUND,
    "localcloud.machine.ledger.StillThere": FAILED,
    "localcloud.processes.StartError": FAILED,
    "localcloud.stack.NoStack": NOT_FOUND,
    "localcloud.stack.PulumiError": FAILED,
    "localcloud.tools.build.BuildError": FAILED,
}
"""Exceptions of other packages whose text is for the user. By name: importing them would slow down `--help`."""


class CommandError(Exception):
    """A verb cannot do what it was asked. The message is one sentence that says what to do."""

    def __init__(self, message: str, code: int = FAILED, *, problems: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.problems = tuple(problems)
        """Every `infra.config.problems.Problem` of a file that was refused."""


class NotFound(CommandError):
    """A job, namespace, file or cluster does not exist."""

    def __init__(self, message: str) -> None:
        super().__init__(message, NOT_FOUND)


def code_of(error: BaseException) -> int | None:
    """The exit code for an error that is the user's to solve; None for a bug."""
    if isinstance(error, CommandError):
        return error.code
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    names = (f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__)
    return next((CODES[name] for name in names if name in CODES), None)


def report(error: BaseException, code: int, verb: str, *, as_json: bool) -> None:
    """Print an error: one JSON document on stdout, or plain sentences on stderr."""
    message = installation.pasteable(str(error)) or ("interrupted" if code == INTERRUPTED else type(error).__name__)
    problems = error.problems if isinstance(error, CommandError) else ()
    if as_json:
        listed = [{"path": one.path, "message": installation.pasteable(one.message)} for one in problems]
        document = {"error": message, "exitCode": code, **({"problems": listed} if listed else {})}
        print(json.dumps(document, indent=1), flush=True)
        return
    for problem in problems:
        print(installation.pasteable(str(problem)), file=sys.stderr)
    print(f"{' '.join(filter(None, (installation.NAME, verb)))}: {message}", file=sys.stderr, flush=True)
