"""Exit codes of every verb: the one table behind the code, each verb's `--help` and docs/command-line.md."""

from typing import Final

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
REFUSED: Final = 3
NOT_FOUND: Final = 4
UNREACHABLE: Final = 5
INTERRUPTED: Final = 130
"""128 plus the number of SIGINT, as shells count it."""
NOT_STARTED: Final = 255
"""ssh's own code when it cannot connect."""

MEANINGS: Final = {
    OK: "success",
    FAILED: "the operation, the job or the check failed",
    USAGE: "wrong usage: an option or argument is missing, unknown or does not fit",
    REFUSED: "the stack file, job or answer has problems, or something of that name already exists",
    NOT_FOUND: "no such stack, cluster, local cloud, job or file",
    UNREACHABLE: "AWS or the cluster cannot be reached or refuses access",
    INTERRUPTED: "interrupted by ^C",
}
REMOTE: Final = "run, ssh: the remote command's own code; 255 if it could not be started or its end is not known"


def help_text() -> str:
    """The end of every verb's `--help`; typer starts a new line at each empty one."""
    return "\n\n".join(["Exit codes:", *(f"{code}: {meaning}" for code, meaning in MEANINGS.items()), REMOTE])


def markdown() -> str:
    """The table in docs/command-line.md."""
    lines = ["| exit code | meaning |", "|---|---|", *(f"| {code} | {meaning} |" for code, meaning in MEANINGS.items())]
    verbs, _, meaning = REMOTE.partition(": ")
    return "\n".join([*lines, f"| {verbs} | {meaning} |"]) + "\n"
