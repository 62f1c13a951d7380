"""Render the results of `capacity find`."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal

from rich.console import Group, RenderableType
from rich.text import Text

from cli.capacity.choices import Choice
from cli.console import Listing
from cli.installation import command as program
from infra.config.messages import all_of
from infra.facts.capacity import Found

UNKNOWN = "unknown"
SHOWN = 20


def screen(found: Found, rows: Sequence[Choice], *, everything: bool) -> RenderableType:
    return Group(*_parts(found, rows, everything=everything))


def _parts(found: Found, rows: Sequence[Choice], *, everything: bool) -> Iterator[RenderableType]:
    shown = rows if everything else rows[:SHOWN]
    yield _table(shown)
    if len(shown) < len(rows):
        yield Text(f"{len(shown)} of {len(rows)} choices; --all shows the rest", "dim")
    for region in found.regions:
        if region.largest_block is not None:
            yield Text(f"{region.region}: maximum nodes per Capacity Block in this period: {region.largest_block}", "dim")
    refused = [f"{region.region}: {one}" for region in found.regions for one in region.refusals]
    yield from (Text(line, "yellow") for line in refused)
    empty = [region.region for region in found.regions if not region.zones and not region.refusals]
    if empty:
        yield Text(f"not offered in {all_of(empty)}", "dim")
    if hint := recommendation(rows):
        yield Text()
        yield Text(hint)


def _table(rows: Sequence[Choice]) -> Listing:
    listing = Listing(*("kind", "zone", "nodes", "starts (UTC)", "hours", "total", "per GPU hour", "ID", "note"), right=RIGHT)
    for row in rows:
        style = "" if row.fits else "dim"
        cells = (
            *(row.kind, row.zone, str(row.nodes), when(row.start), f"{row.hours:g}", usd(row.total), usd(row.per_gpu_hour)),
            *(row.id, row.note),
        )
        listing.add_row(*(Text(cell, style) for cell in cells))
    return listing


RIGHT = ("nodes", "hours", "total", "per GPU hour")


def usd(amount: Decimal | None) -> str:
    return UNKNOWN if amount is None else f"${amount:,.2f}"


def when(moment: datetime | None) -> str:
    return "now" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M}"


def recommendation(rows: Sequence[Choice]) -> str:
    """Return what to do next: use a reservation that fits, or buy the cheapest block."""
    best = next((row for row in rows if row.fits and row.kind in ("reservation", "block")), None)
    if best is None:
        return ""
    if best.kind == "reservation":
        return f"You already have capacity. Set capacity.reservationId: {best.id} in the stack file."
    return f"Cheapest block: {program()} capacity reserve {best.id} -s STACK"
