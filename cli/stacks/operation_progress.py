"""Show the progress of a Pulumi operation: one updated line on a terminal, otherwise a new line every few seconds."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape

from localcloud.engine_events import EventLog
from localcloud.stack import Verb, Watch

EVERY_SECONDS = 5.0
NAMED = 2
"""Maximum number of resources listed in a progress line."""


def line(verb: Verb, events: EventLog, seconds: float) -> str:
    """Return a line like `up, 12 s: 57 resources done, working on gpumpi-local-cluster and 3 more`."""
    running, done = events.running(), events.done()
    if not running and not done:
        return f"{verb}, {seconds:.0f} s: Pulumi's engine and the program are starting"
    names = ", ".join(running[:NAMED])
    more = f" and {len(running) - NAMED} more" if len(running) > NAMED else ""
    working = f", working on {names}{more}" if names else ""
    return f"{verb}, {seconds:.0f} s: {done} resources done{working}"


@contextmanager
def shown(console: Console, verb: Verb) -> Iterator[Watch]:
    """Show progress. Yield the callback for `LocalStack.run`."""
    if console.is_terminal:
        with console.status(f"{verb}: starting") as status:
            room = console.width - len("* ")
            yield lambda events, seconds: status.update(escape(line(verb, events, seconds)[:room]))
        return
    printed = 0.0

    def print_line(events: EventLog, seconds: float) -> None:
        nonlocal printed
        if seconds - printed >= EVERY_SECONDS:
            printed = seconds
            console.print(f"  {line(verb, events, seconds)}", style="dim", markup=False, soft_wrap=True)

    yield print_line
