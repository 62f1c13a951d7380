"""What an engine run is doing, for somebody who waits: a line that changes on a terminal, a line every few seconds elsewhere."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape

from localcloud.engine_events import EventLog
from localcloud.stack import Verb, Watch

EVERY_SECONDS = 5.0
NAMED = 2
"""Resources that a line names; more would not fit."""


def line(verb: Verb, events: EventLog, seconds: float) -> str:
    """`up, 12 s: 57 resources done, working on gpumpi-local-cluster and 3 more`"""
    running, done = events.running(), events.done()
    if not running and not done:
        return f"{verb}, {seconds:.0f} s: engine and program start"
    names = ", ".join(running[:NAMED])
    more = f" and {len(running) - NAMED} more" if len(running) > NAMED else ""
    working = f", working on {names}{more}" if names else ""
    return f"{verb}, {seconds:.0f} s: {done} resources done{working}"


@contextmanager
def shown(console: Console, verb: Verb) -> Iterator[Watch]:
    """What `LocalStack.run` calls while it runs."""
    if console.is_terminal:
        with console.status(f"{verb}: starting") as status:
            room = console.width - len("* ")
            yield lambda events, seconds: status.update(escape(line(verb, events, seconds)[:room]))
        return
    told = 0.0

    def tell(events: EventLog, seconds: float) -> None:
        nonlocal told
        if seconds - told >= EVERY_SECONDS:
            told = seconds
            console.print(f"  {line(verb, events, seconds)}", style="dim", markup=False, soft_wrap=True)

    yield tell
