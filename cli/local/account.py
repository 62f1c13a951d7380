"""`local scarce`, `local quota`, `local deny`, `local clock`: set which requests the local AWS rejects, and its date."""

from typing import Annotated, Any

import typer

from cli import durations, options
from cli.console import Listing, print_result
from cli.errors import CommandError
from cli.exit_codes import REFUSED, USAGE
from cli.local.crashed_parts import DEFAULT_HOME
from cli.local.local_commands import Home
from localcloud.control import Control, ControlError
from localcloud.instance import LocalCloud

Clear = Annotated[bool, typer.Option("--clear", help="Remove all entries from the list.")]


def set_scarcity(
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
    seconds = None if until is None else durations.parse_period(until).total_seconds()
    control = LocalCloud(home).control()
    if clear:
        send_request(control, "DELETE", "scarcity")
    if instance_type is not None:
        send_request(control, "POST", "scarcity", {"type": instance_type, "zone": zone, "seconds": seconds})
    shortages = send_request(control, "GET", "scarcity")
    if not shortages:
        return print_result(shortages, "every zone has capacity", as_json=as_json, stderr=True)
    rows = [(shortage["type"], shortage["zone"], shortage["until"] or "local reset") for shortage in shortages]
    return print_result(shortages, Listing("type", "zone", "until", rows=rows), as_json=as_json)


def set_quota(
    code: Annotated[str | None, typer.Argument(metavar="[CODE]", help="Quota code; without it, prints the list.")] = None,
    value: Annotated[float | None, typer.Argument(metavar="[VALUE]", min=0, help="New value, in all Regions.")] = None,
    home: Home = DEFAULT_HOME,
    as_json: options.Json = False,
) -> int:
    """The local AWS rejects requests that exceed a quota, with AWS's error. `local reset` restores all quotas."""
    control = LocalCloud(home).control()
    if code is not None and value is not None:
        send_request(control, "PUT", "quotas", {code: value})
    quotas = send_request(control, "GET", "quotas")
    if code is not None and code not in quotas:
        raise CommandError(f"{code} is not a quota of the local AWS. `local quota` lists them.", REFUSED)
    quotas = {name: entry for name, entry in quotas.items() if code in (None, name)}
    rows = [(name, f"{entry['value']:g}", entry["name"]) for name, entry in quotas.items()]
    return print_result(quotas, Listing("code", "value", "quota", rows=rows, right=("value",)), as_json=as_json)


def deny_action(
    action: Annotated[str | None, typer.Argument(metavar="[ACTION]", help="Action such as ec2:CreateVpc or eks:*.")] = None,
    clear: Clear = False,
    home: Home = DEFAULT_HOME,
    as_json: options.Json = False,
) -> int:
    """Every request that needs the action is denied, as by a service control policy. `local reset` ends the denial."""
    control = LocalCloud(home).control()
    if clear:
        send_request(control, "DELETE", "denials")
    if action is not None:
        send_request(control, "POST", "denials", {"action": action})
    denials = send_request(control, "GET", "denials")
    text = f"denied: {', '.join(denials)}" if denials else "no action is denied"
    return print_result(denials, text, as_json=as_json, stderr=True)


def advance_clock(
    advance: Annotated[
        str | None, typer.Option("--advance", help="Move the calendar forward by this period: 30m, 2h, 1d.", show_default=False)
    ] = None,
    home: Home = DEFAULT_HOME,
    as_json: options.Json = False,
) -> int:
    """Capacity Blocks and scheduled actions follow this calendar. `local reset` restores the current date."""
    control = LocalCloud(home).control()
    if advance is None:
        now = send_request(control, "GET", "clock")
    else:
        now = send_request(control, "POST", "clock", {"seconds": durations.parse_period(advance).total_seconds()})
    return print_result(now, str(now["now"]), as_json=as_json)


def send_request(control: Control, method: str, path: str, body: Any = None) -> Any:
    """Send a request to the control API of the local AWS. Raises CommandError if the local AWS rejects the request."""
    try:
        return control.send(method, path, body)
    except ControlError as error:
        raise CommandError(_extract_reason(str(error)), REFUSED) from None


def _extract_reason(message: str) -> str:
    """Extract the reason from the server's error message: `... {"error": "ValueError('...')"}`."""
    _, marker, rest = message.partition("ValueError(")
    return rest.rpartition(")")[0].strip("'\"") if marker else message
