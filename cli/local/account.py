"""`local scarce`, `local quota`, `local deny`, `local clock`: set what the local AWS rejects, and its date."""

from typing import Annotated, Any

import typer

from cli import durations, options
from cli.console import Listing, make_console, print_json
from cli.errors import CommandError
from cli.exit_codes import OK, REFUSED, USAGE
from cli.local.crashed_parts import DEFAULT_HOME
from cli.local.local_commands import Home, report
from localcloud.control import Control, ControlError
from localcloud.instance import LocalCloud

Clear = Annotated[bool, typer.Option("--clear", help="Remove all entries from the list.")]


def scarce(
    instance_type: Annotated[
        str | None, typer.Argument(metavar="[TYPE]", help="Instance type; without it, prints the list.")
    ] = None,
    zone: Annotated[str | None, typer.Option("--zone", help="Availability Zone without capacity.", show_default=False)] = None,
    until: Annotated[
        str | None, typer.Option("--until", help="End the shortage after this time, such as 10m or 2h.", show_default="never")
    ] = None,
    clear: Clear = False,
    home: Home = DEFAULT_HOME,
    as_json: options.Json = False,
) -> int:
    """On-demand and Spot launches of the type fail in the zone with InsufficientInstanceCapacity. Reserved capacity stays
    usable. `local reset` ends the shortage.
    """
    if (instance_type is None) != (zone is None):
        raise CommandError("give both an instance type and --zone, or neither for the list", USAGE)
    seconds = None if until is None else durations.parse(until).total_seconds()
    control = LocalCloud(home).control()
    if clear:
        asked(control, "DELETE", "scarcity")
    if instance_type is not None:
        asked(control, "POST", "scarcity", {"type": instance_type, "zone": zone, "seconds": seconds})
    found = asked(control, "GET", "scarcity")
    if as_json:
        print_json(found)
    elif not found:
        report("every zone has capacity")
    else:
        listing = Listing("type", "zone", "until")
        for one in found:
            listing.add_row(one["type"], one["zone"], one["until"] or "local reset")
        make_console().print(listing)
    return OK


def quota(
    code: Annotated[str | None, typer.Argument(metavar="[CODE]", help="Quota code; without it, prints the list.")] = None,
    value: Annotated[float | None, typer.Argument(metavar="[VALUE]", min=0, help="New value, in all Regions.")] = None,
    home: Home = DEFAULT_HOME,
    as_json: options.Json = False,
) -> int:
    """The local AWS rejects requests that exceed a quota, with AWS's error. `local reset` restores all quotas."""
    control = LocalCloud(home).control()
    if code is not None and value is not None:
        asked(control, "PUT", "quotas", {code: value})
    found = asked(control, "GET", "quotas")
    if code is not None and code not in found:
        raise CommandError(f"{code} is not a quota of the local AWS. `local quota` lists them.", REFUSED)
    found = {name: one for name, one in found.items() if code in (None, name)}
    if as_json:
        print_json(found)
        return OK
    listing = Listing("code", "value", "quota", right=("value",))
    for name, one in found.items():
        listing.add_row(name, f"{one['value']:g}", one["name"])
    make_console().print(listing)
    return OK


def deny(
    action: Annotated[str | None, typer.Argument(metavar="[ACTION]", help="Action such as ec2:CreateVpc or eks:*.")] = None,
    clear: Clear = False,
    home: Home = DEFAULT_HOME,
    as_json: options.Json = False,
) -> int:
    """Every request that needs the action is denied, as by a service control policy. `local reset` ends the denial."""
    control = LocalCloud(home).control()
    if clear:
        asked(control, "DELETE", "denials")
    if action is not None:
        asked(control, "POST", "denials", {"action": action})
    found = asked(control, "GET", "denials")
    if as_json:
        print_json(found)
    else:
        report(f"denied: {', '.join(found)}" if found else "no action is denied")
    return OK


def clock(
    advance: Annotated[
        str | None, typer.Option("--advance", help="Put the calendar forward: 30m, 2h, 1d.", show_default=False)
    ] = None,
    home: Home = DEFAULT_HOME,
    as_json: options.Json = False,
) -> int:
    """Capacity Blocks and scheduled actions follow this calendar. `local reset` restores the current date."""
    control = LocalCloud(home).control()
    if advance is None:
        now = asked(control, "GET", "clock")
    else:
        now = asked(control, "POST", "clock", {"seconds": durations.parse(advance).total_seconds()})
    if as_json:
        print_json(now)
    else:
        print(now["now"])
    return OK


def asked(control: Control, method: str, path: str, body: Any = None) -> Any:
    """Send a request to the control API of the local AWS. Raises CommandError if the local AWS rejects the request."""
    try:
        return control.send(method, path, body)
    except ControlError as error:
        raise CommandError(_reason(str(error)), REFUSED) from None


def _reason(message: str) -> str:
    """Extract the reason from the server's error message: `... {"error": "ValueError('...')"}`."""
    _, marker, rest = message.partition("ValueError(")
    return rest.rpartition(")")[0].strip("'\"") if marker else message
