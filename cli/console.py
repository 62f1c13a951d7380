"""Console, tables and JSON output shared by all verbs."""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from functools import cache
from typing import Any, Final, Literal

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from cli.exit_codes import OK
from cli.output import escape_controls, open_unfiltered

ENDLESS: Final = 10_000
"""Console width for output to a pipe or a file: large enough that no line is wrapped or cut, whatever COLUMNS says."""

PROSE_WIDTH: Final = 30


class _FilteringConsole(Console):
    """Console that escapes control characters in texts, but not rich's own colors and cursor movements."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=escape_controls(segment.text))


def make_console(*, stderr: bool = False) -> Console:
    """Return a console that prints AWS and Kubernetes messages verbatim, without markup, except for control characters,
    which become visible escapes. It respects NO_COLOR."""
    stream = open_unfiltered(sys.stderr if stderr else sys.stdout)
    console = _FilteringConsole(file=stream, stderr=stderr, highlight=False, markup=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = ENDLESS
    return console


def say(line: str) -> None:
    """Print a progress line to stderr and flush it."""
    print(line, file=sys.stderr, flush=True)


@cache
def print_progress_once(line: str) -> None:
    """Print a progress line to stderr unless this process has printed it before."""
    say(line)


def print_json(document: Any) -> None:
    print(json.dumps(document, indent=1), flush=True)


def print_result(
    document: Any, text: RenderableType | Callable[[], object], *, as_json: bool, code: int = OK, stderr: bool = False
) -> int:
    """Print the result of a verb: the document with --json, otherwise the text, or what a function prints. Return the
    exit code.
    """
    if as_json:
        print_json(document)
    elif callable(text):
        text()
    else:
        make_console(stderr=stderr).print(text)
    return code


def to_json(value: Any) -> Any:
    """Return a value as data for a JSON document. The fields of data classes get names in camel case."""
    if is_dataclass(value):
        return {_to_camel_case(field.name): to_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    return value.isoformat() if isinstance(value, datetime) else value


def _to_camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


class Listing:
    """A table. If the terminal is too narrow, each row is printed as a block of `heading: value` lines."""

    def __init__(
        self,
        *headings: str,
        rows: Iterable[Sequence[str | Text]] = (),
        right: Sequence[str] = (),
        whole: Sequence[str] = (),
        prose: Sequence[str] = (),
    ) -> None:
        """The other options list the headings of the columns to which it applies: `right` aligns to the right, `whole`
        prevents wrapping, and `prose` reserves a minimum width for sentences.
        """
        self._headings, self._right, self._whole, self._prose = headings, right, whole, prose
        self._rows = list(rows)

    def add_row(self, *cells: str | Text) -> None:
        self._rows.append(cells)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
        for heading in self._headings:
            justify: Literal["left", "right"] = "right" if heading in self._right else "left"
            width, whole = PROSE_WIDTH if heading in self._prose else None, heading in self._whole
            table.add_column(heading, justify=justify, overflow="fold", no_wrap=whole, min_width=width)
        for cells in self._rows:
            table.add_row(*cells)
        needed = Measurement.get(console, options.update(max_width=ENDLESS), table).minimum
        if needed <= options.max_width:
            yield table
        else:
            yield from self._render_blocks()

    def _render_blocks(self) -> RenderResult:
        for number, cells in enumerate(self._rows):
            if number:
                yield Text()
            for heading, cell in zip(self._headings, cells, strict=True):
                if str(cell):
                    yield Text.assemble((f"{heading}: ", "bold"), cell)
