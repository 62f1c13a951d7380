"""Confirmation prompts of acceptance. They need a terminal."""

import sys
from collections.abc import Callable

from cli.errors import CommandError
from cli.exit_codes import REFUSED

Ask = Callable[[str], str]


def interactive() -> bool:
    return sys.stdin.isatty()


def read_line(question: str) -> str:
    print(question, end=" ", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip()


def confirm_cost(*, yes: bool, terminal: bool, ask: Ask = read_line) -> None:
    """Ask whether to start the run, unless `yes` is set. Raises CommandError unless the answer is yes."""
    if yes:
        return
    if not terminal:
        raise CommandError("the cost needs confirmation, but stdin is not a terminal. Add --yes", REFUSED)
    if ask("Start? [y/N]").lower() not in ("y", "yes"):
        raise CommandError("not confirmed; nothing was started", REFUSED)


def confirm_destroy(stack: str, *, terminal: bool, ask: Ask = read_line) -> None:
    """Ask the user to type the stack's name, even with `--yes`. Raises CommandError if the typed name differs."""
    if not terminal:
        raise CommandError(f"--destroy needs a terminal: it destroys {stack} only if you type this name", REFUSED)
    if (typed := ask(f"Type {stack} to destroy this stack after the checks:")) != stack:
        raise CommandError(f"typed {typed!r}, not {stack!r}; nothing was started or destroyed", REFUSED)
