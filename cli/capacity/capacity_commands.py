"""`capacity find` and `capacity reserve`."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from cli import options, prompts
from cli.capacity import order, purchase, remembered
from cli.capacity.choices import list_choices
from cli.capacity.offer_screen import format_time, format_usd, recommend_next_step, render_screen
from cli.console import make_console, print_json, say
from cli.errors import CommandError, NotFound
from cli.exit_codes import NOT_FOUND, OK, USAGE
from cli.installation import program_name as program
from infra.config import stack_file
from infra.config.messages import suggest_correction
from infra.facts import capacity
from infra.facts.capacity import BlockOffering, Found, Progress, Wanted
from infra.facts.clients import Clients
from infra.facts.regions import list_sdk_regions

HOME_REGION: Final = "us-east-1"
"""Region for the first queries if the AWS configuration sets no Region."""
REPORT_EVERY: Final = 10
DATE: Final = ["%Y-%m-%d", "%Y-%m-%dT%H:%M"]


def find(
    instance_type: Annotated[str, typer.Argument(metavar="TYPE", help="Instance type, such as p5.48xlarge.")],
    nodes: Annotated[int, typer.Option("--nodes", "-n", min=1, help="Number of nodes.")] = 1,
    days: Annotated[int | None, typer.Option("--days", min=1, max=182, help="Days.", show_default=False)] = None,
    hours: Annotated[int | None, typer.Option("--hours", min=1, help="Hours.", show_default="24")] = None,
    regions: Annotated[str, typer.Option("--regions", help="Regions separated by commas, or all.")] = "all",
    start: Annotated[
        datetime | None, typer.Option("--start", formats=DATE, help="Earliest start in UTC.", show_default="now")
    ] = None,
    end: Annotated[datetime | None, typer.Option("--end", formats=DATE, help="Latest end in UTC.", show_default="any")] = None,
    spot: Annotated[bool, typer.Option("--spot", help="Also show Spot prices and placement scores.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="Show all choices, not only the first 20.")] = False,
    as_json: options.Json = False,
) -> int:
    """Lists your reservations, Capacity Blocks that can be bought, and the zones that offer the type, cheapest first. A
    Capacity Block ends at 11:30 UTC, so its duration only approximates the requested one. Exits with 4 if nothing is
    offered.
    """
    if days is not None and hours is not None:
        raise CommandError("give --days or --hours, not both", USAGE)
    request = Wanted(instance_type, nodes, 24 * days if days else hours or 24, _as_utc(start), _as_utc(end), spot)
    home = read_home_region()
    places = capacity.list_enabled_regions(home) if regions == "all" else split_comma_list(regions)
    with _show_progress(quiet=as_json) as progress:
        search = capacity.find_capacity(request, places, home, progress)
    rows = list_choices(search)
    remembered.save_offerings(block for region in search.regions for block in region.blocks)
    if as_json:
        print_json(
            {**summarize_search(search), "choices": [row.as_json() for row in rows], "next": recommend_next_step(rows) or None}
        )
    elif rows:
        make_console().print(render_screen(search, rows, everything=everything))
    if not rows:
        _check_search_terms(search)
    return OK if rows else NOT_FOUND


def _check_search_terms(search: Found) -> None:
    refused = [f"{region.region}: {refusal}" for region in search.regions for refusal in region.refusals]
    if refused:
        raise CommandError(f"no Region could be queried. {refused[0]}", NOT_FOUND)
    where = f"none of the {len(search.regions)} Regions" if len(search.regions) > 1 else search.regions[0].region
    raise NotFound(f"{where} offers {search.wanted.instance_type}")


def summarize_search(search: Found) -> dict[str, object]:
    return {
        "instanceType": search.wanted.instance_type,
        "nodes": search.wanted.nodes,
        "hours": search.wanted.hours,
        "priceSource": search.price_source,
        "regions": [
            {"region": region.region, "zones": region.zones, "largestBlock": region.largest_block, "refusals": region.refusals}
            for region in search.regions
        ],
    }


def _as_utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.replace(tzinfo=UTC)


def read_home_region() -> str:
    import boto3.session  # slow to import

    return boto3.session.Session().region_name or HOME_REGION


def split_comma_list(text: str) -> tuple[str, ...]:
    places = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not places:
        raise CommandError("--regions: list at least one Region, or use all", USAGE)
    for place in places:
        if place not in list_sdk_regions():
            raise CommandError(f"--regions: {place} is not a Region{suggest_correction(place, list_sdk_regions())}", USAGE)
    return places


@contextmanager
def _show_progress(*, quiet: bool) -> Iterator[Progress]:
    """Show how many Regions have answered. On a terminal, update one line; otherwise, print a new line after every
    REPORT_EVERY Regions.
    """
    console = make_console(stderr=True)
    if console.is_terminal and not quiet:
        with console.status("querying Regions") as status:
            yield lambda done, of: status.update(f"{done} of {of} Regions have answered")
        return

    def print_progress(done: int, of: int) -> None:
        if not quiet and (done % REPORT_EVERY == 0 or done == of):
            say(f"{done} of {of} Regions have answered")

    yield print_progress


def reserve(
    offering_id: Annotated[str, typer.Argument(metavar="OFFERING", help="ID (cb-...) that `capacity find` printed.")],
    stack: options.Stack,
    pool: Annotated[
        str | None, typer.Option("--pool", help="Pool that uses the block.", show_default="the pool with its instance type")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the price and the change; do not buy or write anything.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Buy without asking.")] = False,
    minutes: options.Minutes = 15,
    config_dir: options.ConfigDir = options.STACK_FILES,
    as_json: options.Json = False,
) -> int:
    """Shows the full price, asks for confirmation, buys the block, writes the reservation into the stack file and
    waits for the payment. A Capacity Block cannot be cancelled.
    """
    path = stack_file.find_stack_file(stack, config_dir)
    remembered_block = remembered.find_offering(offering_id)
    if remembered_block is None:
        raise NotFound(f"{offering_id} is not known here; `{program()} capacity find` prints the IDs that can be bought")
    clients = Clients(remembered_block.region)
    offering = purchase.find_current_offering(clients, remembered_block)
    edit = purchase.plan_edit(path, pool, offering)
    if not as_json:
        show_order(offering, edit)
    order.check_purchase(clients, offering)
    if dry_run:
        if as_json:
            print_json(describe_result(offering, edit, None, None))
        else:
            say("dry run: AWS would accept the purchase; nothing was bought or written")
        return OK
    prompts.confirm(f"Buy for {format_usd(offering.fee)}?", "purchase", "bought", yes=yes, terminal=prompts.is_interactive())
    reservation = order.buy_block(clients, offering)
    identifier = str(reservation["CapacityReservationId"])
    edit.write(identifier)
    bought = replace(offering, start=reservation["StartDate"], end=reservation["EndDate"])
    say(f"bought {identifier}; {path.name} now refers to it")
    state = purchase.wait_until_paid(clients, identifier, timedelta(minutes=minutes))
    if as_json:
        print_json(describe_result(bought, edit, identifier, state))
        return OK
    show_next_step(stack, bought, edit, identifier, state)
    return OK


def show_order(offering: BlockOffering, edit: purchase.Edit) -> None:
    period = f"{format_time(offering.start)} to {format_time(offering.end)} UTC ({offering.hours:g} hours)"
    print(f"{offering.count} x {offering.instance_type} in {offering.zone}, {period}")
    print(f"price: {format_usd(offering.fee)} {offering.currency}, paid now; a Capacity Block cannot be cancelled")
    print(edit.render_diff())


def show_next_step(stack: str, offering: BlockOffering, edit: purchase.Edit, identifier: str, state: str) -> None:
    print(f"{identifier} is {state}")
    if state not in purchase.PAID:
        print("AWS collects the payment within 12 hours; until then the block is not yours")
    print(f"`pulumi up -s {stack}` then does this:")
    for line in purchase.describe_pulumi_up_effects(offering, edit):
        print(f"  {line}")


def describe_result(offering: BlockOffering, edit: purchase.Edit, identifier: str | None, state: str | None) -> dict[str, Any]:
    return {
        "offering": offering.id,
        "reservationId": identifier,
        "state": state,
        "usd": None if offering.fee is None else float(offering.fee),
        "zone": offering.zone,
        "nodes": offering.count,
        "start": offering.start.isoformat(),
        "end": offering.end.isoformat(),
        "stackFile": str(Path(edit.path)),
        "pool": edit.pool,
        "up": purchase.describe_pulumi_up_effects(offering, edit),
    }
