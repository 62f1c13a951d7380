"""Questions that confirm a cost or a deletion. They need a terminal."""

import sys
from collections.abc import Callable

from cli.errors import CommandError
from cli.exit_codes import REFUSED

Ask = Callable[[str], str]


def is_interactive() -> bool:
    return sys.stdin.isatty()


def read_line(question: str) -> str:
    print(question, end=" ", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip()


def confirm(question: str, subject: str, undone: str, *, yes: bool, terminal: bool, ask: Ask = read_line) -> None:
    """Ask the question, unless `yes` is set. Raises CommandError unless the answer is yes. `subject` is what needs
    confirmation, such as a purchase; without confirmation, nothing is `undone`, such as bought."""
    if yes:
        return
    if not terminal:
        raise CommandError(f"the {subject} needs confirmation, but stdin is not a terminal. Add --yes", REFUSED)
    if ask(f"{question} [y/N]").lower() not in ("y", "yes"):
        raise CommandError(f"not confirmed; nothing was {undone}", REFUSED)


def confirm_destroy(stack: str, *, terminal: bool, ask: Ask = read_line) -> None:
    """Ask the user to type the stack's name, even with `--yes`. Raises CommandError if the typed name differs."""
    if not terminal:
        raise CommandError(f"--destroy needs a terminal: it destroys {stack} only if you type this name", REFUSED)
    if (typed := ask(f"Type {stack} to destroy this stack after the checks:")) != stack:
        raise CommandError(f"typed {typed!r}, not {stack!r}; nothing was started or destroyed", REFUSED)
