"""Render the results of `capacity find`."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal

from rich.console import Group, RenderableType
from rich.text import Text

from cli.capacity.choices import Choice
from cli.console import Listing
from cli.installation import program_name as program
from infra.config.messages import join_with_and
from infra.facts.capacity import Found

UNKNOWN = "unknown"
SHOWN = 20


def render_screen(search: Found, rows: Sequence[Choice], *, everything: bool) -> RenderableType:
    return Group(*render_parts(search, rows, everything=everything))


def render_parts(search: Found, rows: Sequence[Choice], *, everything: bool) -> Iterator[RenderableType]:
    shown = rows if everything else rows[:SHOWN]
    yield render_table(shown)
    if len(shown) < len(rows):
        yield Text(f"{len(shown)} of {len(rows)} choices; --all shows the rest", "dim")
    for region in search.regions:
        if region.largest_block is not None:
            yield Text(f"{region.region}: maximum nodes per Capacity Block in this period: {region.largest_block}", "dim")
    refused = [f"{region.region}: {refusal}" for region in search.regions for refusal in region.refusals]
    yield from (Text(line, "yellow") for line in refused)
    empty = [region.region for region in search.regions if not region.zones and not region.refusals]
    if empty:
        yield Text(f"not offered in {join_with_and(empty)}", "dim")
    if hint := recommend_next_step(rows):
        yield Text()
        yield Text(hint)


def render_table(rows: Sequence[Choice]) -> Listing:
    listing = Listing(
        *("kind", "zone", "nodes", "starts (UTC)", "hours", "total", "per GPU hour", "ID", "note"),
        right=("nodes", "hours", "total", "per GPU hour"),
    )
    for row in rows:
        times, costs = (format_time(row.start), f"{row.hours:g}"), (format_usd(row.total), format_usd(row.price_per_gpu_hour))
        cells = (row.kind, row.zone, str(row.nodes), *times, *costs, row.id, row.note)
        listing.add_row(*(Text(cell, "" if row.fits else "dim") for cell in cells))
    return listing


def format_usd(amount: Decimal | None) -> str:
    return UNKNOWN if amount is None else f"${amount:,.2f}"


def format_time(moment: datetime | None) -> str:
    return "now" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%d %H:%M}"


def recommend_next_step(rows: Sequence[Choice]) -> str:
    """Return what to do next: use a reservation that fits, or buy the cheapest block."""
    best = next((row for row in rows if row.fits and row.kind in ("reservation", "block")), None)
    if best is None:
        return ""
    if best.kind == "reservation":
        return f"You already have capacity. Set capacity.reservationId: {best.id} in the stack file."
    return f"Cheapest block: {program()} capacity reserve {best.id} -s STACK"
