"""Exit codes of all verbs. The code, every `--help` text and docs/reference/command-line.md use these definitions."""

from typing import Final

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
REFUSED: Final = 3
NOT_FOUND: Final = 4
UNREACHABLE: Final = 5
NOT_RUN: Final = 6
INTERRUPTED: Final = 130
"""128 plus the signal number of SIGINT, as in shells."""
NOT_STARTED: Final = 255
"""Exit code that ssh itself returns when it cannot connect."""

MEANINGS: Final = {
    OK: "success",
    FAILED: "the operation, the job or the check failed",
    USAGE: "wrong usage: an option or argument is missing, unknown or invalid",
    REFUSED: "the stack file, job or answer is invalid, or the name is already in use",
    NOT_FOUND: "no such stack, cluster, local cloud, job or file",
    UNREACHABLE: "AWS or the cluster is unreachable or denies access",
    NOT_RUN: "nothing failed, but something was not checked: a program is missing (`make conformance`), or a check is unknown "
    "(`plan --strict`)",
    INTERRUPTED: "interrupted by ^C",
}
REMOTE: Final = "run, ssh, exec: the exit code of the remote command; 255 if it could not be started or its exit code is unknown"


def render_exit_code_help() -> str:
    """Return the last section of every verb's `--help`. Typer joins lines unless there is an empty line between them."""
    return "\n\n".join(["Exit codes:", *(f"{code}: {meaning}" for code, meaning in MEANINGS.items()), REMOTE])


def render_exit_code_table() -> str:
    """Return the table in docs/reference/command-line.md."""
    lines = ["| exit code | meaning |", "|---|---|", *(f"| {code} | {meaning} |" for code, meaning in MEANINGS.items())]
    verbs, _, meaning = REMOTE.partition(": ")
    return "\n".join([*lines, f"| {verbs} | {meaning} |"]) + "\n"
