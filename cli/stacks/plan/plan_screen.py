"""Render a plan as text for a terminal."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cli.console import Listing
from cli.exit_codes import OK
from cli.stacks.plan.plan_report import NOTE, Report
from infra.checks.model import Answer
from infra.inventory.bill import LEVELS, Bill, Level, Line, UsageLine

UNKNOWN = "unknown"
STYLES = {"yes": "green", "no": "red", "unknown": "yellow"}


def render_report(report: Report, *, strict: bool) -> RenderableType:
    """Render the report of `plan`."""
    return Group(*_render_parts(report, strict=strict))


def _render_parts(report: Report, *, strict: bool) -> Iterator[RenderableType]:
    yield _wrap_text(Text(report.heading, "bold"))
    yield _wrap_text(Text(report.changes.sentence(), "yellow" if report.changes.not_previewed else ""), indent=2)
    for change in report.changes.notable:
        yield _wrap_text(Text(str(change), "red" if change.effect else ""), indent=2)
    yield Text()
    yield Text("Can it be created?", "bold")
    yield _render_checks(report)
    if report.bill is not None:
        yield Text()
        yield Text("What it costs, in USD per hour", "bold")
        yield _render_costs(report.bill)
        yield from _render_price_notes(report.bill)
    yield Text()
    yield _wrap_text(_render_verdict(report, strict=strict))


def _wrap_text(text: Text, indent: int = 0) -> Table:
    """Wrap a text at the width of the terminal, with each line indented."""
    grid = Table.grid(padding=(0, 0, 0, indent), pad_edge=True)
    grid.add_column(overflow="fold")
    grid.add_row(text)
    return grid


def _render_checks(report: Report) -> Table:
    grid = Table.grid(padding=(0, 1, 0, 0), pad_edge=False)
    grid.add_column(width=1)
    grid.add_column(width=max(map(len, STYLES)))
    grid.add_column(overflow="fold")
    for answer in _merge_answers(report.answers):
        first, *rest = answer.sentences or ("",)
        grid.add_row("", Text(answer.verdict, STYLES[answer.verdict]), f"{answer.check}: {first}" if first else answer.check)
        for sentence in rest:
            grid.add_row("", "", sentence)
        for sentence in answer.warnings:
            grid.add_row("", "", Text(f"warning: {sentence}", "yellow"))
    if report.has_unreserved:
        grid.add_row("", Text("note", "dim"), Text(NOTE, "dim"))
    return grid


def _merge_answers(answers: Sequence[Answer]) -> Iterator[Answer]:
    """Merge passed checks into one line, and likewise unknown checks with the same reason."""
    alike: dict[tuple[str, tuple[str, ...]], list[Answer]] = {}
    for row in answers:
        if row.verdict != "no" and not row.warnings:
            alike.setdefault((row.verdict, row.sentences), []).append(row)
    for row in answers:
        merged = alike.get((row.verdict, row.sentences), [row]) if row.verdict != "no" and not row.warnings else [row]
        if merged[0] is row:
            yield replace(row, check=", ".join(other.check for other in merged))


def _render_costs(bill: Bill) -> Listing:
    listing = Listing("part", "number", *LEVELS, right=("number", *LEVELS))
    for line in bill.lines:
        name = f"{line.group}: {line.name}" if line.group not in ("control plane", "network", "keys") else line.name
        listing.add_row(name, _format_counts(line), *(_format_amount(line, level) for level in LEVELS))
    totals = [bill.total(level) for level in LEVELS]
    listing.add_row(
        Text("per hour", "bold"), "", *(Text(_format_sum(level.hourly, level.is_known, 4), "bold") for level in totals)
    )
    listing.add_row(
        Text("per month (730 h)", "bold"), "", *(Text(_format_sum(usd.monthly_cost, usd.is_known, 2), "bold") for usd in totals)
    )
    return listing


def _format_counts(line: Line) -> str:
    if line.counts is None:
        return "?"
    numbers = list(dict.fromkeys(line.counts))
    return str(numbers[0]) if len(numbers) == 1 else " / ".join(str(number) for number in line.counts)


def _format_amount(line: Line, level: Level) -> str:
    if line.prepaid:
        return "prepaid"
    amount = line.hourly_cost(level)
    return UNKNOWN if amount is None else f"{amount:,.4f}"


def _format_sum(amount: Decimal, is_known: bool, digits: int) -> str:
    return f"{amount:,.{digits}f}" if is_known else UNKNOWN


def _render_price_notes(bill: Bill) -> Iterator[RenderableType]:
    lacking = dict.fromkeys(name for level in LEVELS for name in bill.total(level).unknown)
    if bill.prices.missing:
        yield _wrap_text(Text(f"unknown prices: {bill.prices.missing}. `plan --offline` uses a dated snapshot.", "yellow"))
    if bill.prices.items:
        for name in lacking:
            yield _wrap_text(Text(f"unknown: {name}", "yellow"))
    usage = "; ".join(f"{item.name} {_format_unit_price(item)}" for item in bill.usage)
    yield _wrap_text(Text(f"depends on usage, not in the sum: {usage}", "dim"))
    mark = "; not verified" if bill.has_unverified_prices else ""
    source = "AWS Price List" if bill.prices.kind == "Price List" else "snapshot of this repository"
    yield _wrap_text(Text(f"prices: {source}, {bill.date}{mark}; without taxes and discounts", "dim"))


def _format_unit_price(line: UsageLine) -> str:
    return UNKNOWN if line.price is None else f"{line.price.usd.normalize():f}/{line.unit}"


def _render_verdict(report: Report, *, strict: bool) -> Text:
    code = report.code(strict=strict)
    refused, unknown = report.refused_answers, report.unknown
    if refused:
        return Text(f"no: {', '.join(answer.check for answer in refused)}", "bold red")
    checks = len(unknown) - report.changes.failed
    parts = [f"{checks} check{' is' if checks == 1 else 's are'} unknown"] if checks else []
    note = "".join(f"; {part}" for part in (*(["the changes are unknown"] if report.changes.failed else []), *parts))
    if code == OK:
        return Text(f"yes: no check failed{note}", "bold green" if not unknown else "bold yellow")
    return Text(f"unknown: with --strict, every check, price and change must be known{note}", "bold yellow")
