"""`cost`: print the cost of a stack so far."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from cli import options
from cli.clusters.kubernetes_access import Access
from cli.console import Listing, make_console, print_result
from cli.errors import CommandError
from cli.exit_codes import USAGE
from cli.stacks.cost.cost_sources import read_spending
from cli.stacks.cost.spending import Spending, Spent
from infra.config import stack_file
from infra.preflight import examine_aws_stack

UNITS = {"h": "hours", "d": "days", "w": "weeks"}


def command(
    stack: options.Stack,
    since: Annotated[
        str | None, typer.Option(help="Start: 12h, 7d, 2w, or a date such as 2026-11-01.", show_default="the first instance")
    ] = None,
    config_dir: options.ConfigDir = options.STACK_FILES,
    kubeconfig: options.Kubeconfig = None,
    context: options.Context = None,
    as_json: options.Json = False,
) -> int:
    """Multiplies instance hours by today's prices, per pool, cost center, namespace and job. Also shows the GPU hours
    that no job used. Traffic, storage, the control plane and the network are not included: `plan` shows what they cost
    per hour. Auto Scaling keeps this data for six weeks. The share of each job comes from its record, even if the job
    was deleted.
    """
    begin = parse_since(since) if since else None
    raw = stack_file.read_stack_file(stack_file.find_stack_file(stack, config_dir))
    settings = None if stack_file.uses_existing_cluster(raw.values) else examine_aws_stack(raw, offline=True).settings
    if settings is None:
        raise CommandError(f"{stack} has no AWS settings that can be read. See `validate -s {stack}`", USAGE)
    spending = read_spending(settings, Access(kubeconfig, context), since=begin)
    document = {"stack": stack, **spending.as_json()}
    return print_result(document, lambda: print_spending(make_console(), stack, spending), as_json=as_json)


def parse_since(text: str) -> datetime | timedelta:
    """Parse a date, or a period such as `7d`. Raises CommandError."""
    if match := re.fullmatch(r"(\d+)([hdw])", text):
        return timedelta(**{UNITS[match[2]]: int(match[1])})
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise CommandError(f"--since: {text} is neither a period nor a date. Use 12h, 7d, 2w, or 2026-11-01", USAGE) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def print_spending(console: Console, stack: str, spending: Spending) -> None:
    console.print(Text(f"{stack}: since {spending.since:%Y-%m-%d %H:%M} UTC", "bold"))
    named = [
        *((f"pool {name}", spent) for name, spent in spending.pools.items()),
        *((f"cost center {name or '(none)'}", spent) for name, spent in spending.cost_centers.items()),
        *((f"namespace {name}", spent) for name, spent in spending.namespaces.items()),
        *((f"job {name} in {space}", spent) for (space, name), spent in spending.jobs.items()),
        ("total of all instances", spending.total),
    ]
    columns = ("instance hours", "GPU hours", "USD")
    console.print(Listing("", *columns, rows=[_format_row(name, spent) for name, spent in named], right=columns))
    for name, hours in spending.idle_gpu_hours.items():
        if hours:
            console.print(Text(f"pool {name}: {hours:,.2f} GPU hours without a job", "yellow"))
    for sentence in spending.unknown:
        console.print(Text(f"unknown: {sentence}", "yellow"))


def _format_row(name: str, spent: Spent) -> tuple[str, str, str, str]:
    usd = f"at least {spent.usd:,.2f}" if spent.unknown else f"{spent.usd:,.2f}"
    return name, f"{spent.instance_hours:,.2f}", f"{spent.gpu_hours:,.2f}", usd
