"""Buy a Capacity Block, write it into the stack file, and wait for the payment."""

import difflib
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cli import whole_files
from cli.capacity import stack_edit
from cli.capacity.offer_screen import format_time, format_usd
from cli.capacity.order import EVERY_SECONDS, call_aws
from cli.errors import CommandError, NotFound
from cli.exit_codes import FAILED, REFUSED
from cli.installation import program_name as program
from infra import preflight
from infra.config import stack_file
from infra.facts.capacity import BlockOffering, Wanted, list_block_offerings
from infra.facts.clients import Clients
from infra.plan.specs import DRAIN_BEFORE_END
from infra.settings.stack import Settings

PLACEHOLDER: Final = "cr-00000000000000000"
PAID: Final = ("scheduled", "active")
TERMINATED_BEFORE_END: Final = timedelta(minutes=30)
"""https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-blocks-how-it-works.html"""


@dataclass(frozen=True)
class Edit:
    """Change that adds the reservation to the stack file."""

    path: Path
    before: str
    after: str
    """New content of the file, with a placeholder that `write` replaces with the reservation ID."""
    pool: str
    is_eks: bool

    def render_diff(self) -> str:
        lines = difflib.unified_diff(
            self.before.splitlines(), self.after.splitlines(), self.path.name, self.path.name, lineterm=""
        )
        return "\n".join(lines)

    def write(self, reservation: str) -> None:
        """Write the file. Raises CommandError, whose message contains the reservation: the reservation is already paid for."""
        try:
            whole_files.write_file(self.path, self.after.replace(PLACEHOLDER, reservation))
        except OSError as error:
            fix = f"Write it into pool {self.pool} yourself: capacity: {{kind: capacity-block, reservationId: {reservation}}}"
            raise CommandError(f"{reservation} was bought, but {self.path} cannot be written: {error.strerror}. {fix}") from None


def find_current_offering(clients: Clients, offering: BlockOffering) -> BlockOffering:
    """Return the offering as AWS now reports it. Raises CommandError if it no longer exists or its price has changed."""
    request = Wanted(offering.instance_type, offering.count, offering.asked_hours, offering.start, offering.end)
    offered: list[BlockOffering] = call_aws(
        clients.region, lambda: list_block_offerings(clients, request, offering.count, offering.asked_hours)
    )
    place = offering.zone, offering.start, offering.end
    same = next((candidate for candidate in offered if candidate.id == offering.id), None)
    same = same or next((candidate for candidate in offered if (candidate.zone, candidate.start, candidate.end) == place), None)
    if same is None:
        raise NotFound(f"AWS no longer offers {offering.id}; search again with `capacity find`")
    if same.fee != offering.fee:
        raise CommandError(
            f"{offering.id} now costs {format_usd(same.fee)}, not {format_usd(offering.fee)}; search again", REFUSED
        )
    return same


def plan_edit(path: Path, pool: str | None, offering: BlockOffering) -> Edit:
    """Return the change to the stack file. Raises CommandError if the changed file would be invalid."""
    raw = stack_file.read_stack_file(path)
    if raw.region != offering.region:
        raise CommandError(f"{offering.id} is in {offering.region}, but aws:region of {path.name} is {raw.region}", REFUSED)
    before = path.read_text(encoding="utf-8")
    after, name = stack_edit.insert_block(before, pool, offering.instance_type, PLACEHOLDER, offering.zone, offering.count)
    return Edit(path, before, after, name, is_eks=check_edited_stack(path, after).is_eks)


def check_edited_stack(path: Path, text: str) -> Settings:
    """Return the settings in the changed file. Raises CommandError if the file is invalid. This check precedes the
    purchase.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, path.name)
        copy.write_text(text, encoding="utf-8")
        examined = preflight.examine_aws_stack(stack_file.read_stack_file(copy), offline=True)
    if examined.problems or examined.settings is None:
        number = len(examined.problems)
        message = f"{path.name}: {number} problem{'' if number == 1 else 's'}; nothing was bought"
        raise CommandError(message, REFUSED, problems=(*examined.warnings, *examined.problems))
    return examined.settings


def wait_until_paid(
    clients: Clients,
    reservation: str,
    limit: timedelta,
    *,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    pause: Callable[[float], object] = time.sleep,
) -> str:
    """Return the state once the payment has succeeded, or the last state at the time limit. Raises CommandError if the
    payment fails.
    """
    deadline = now() + limit
    while True:
        question = {"CapacityReservationIds": [reservation]}
        answer = call_aws(clients.region, lambda: clients.ec2.describe_capacity_reservations(**question))  # noqa: B023
        state = str(answer["CapacityReservations"][0]["State"])
        if state in ("payment-failed", "failed", "cancelled"):
            raise CommandError(f"AWS could not collect the payment: {reservation} is {state}", FAILED)
        if state in PAID or now() >= deadline:
            return state
        pause(EVERY_SECONDS)


def describe_pulumi_up_effects(offering: BlockOffering, edit: Edit) -> list[str]:
    """Describe the effects of `pulumi up` on the pool. EC2 clusters have no scheduled actions: docs/adr/0027."""
    uses = f"pool {edit.pool} uses the block in {offering.zone}, with at most {offering.count} nodes"
    if edit.is_eks:
        drain = offering.end - DRAIN_BEFORE_END
        return [
            uses,
            f"its nodes start at {format_time(offering.start)} UTC",
            f"its nodes are drained from {format_time(drain)} UTC, 45 minutes before the end; jobs get SIGTERM then",
        ]
    end = offering.end - TERMINATED_BEFORE_END
    return [
        uses,
        f"nothing starts its nodes: when the block starts at {format_time(offering.start)} UTC, run `{program()} scale`",
        f"nothing drains its nodes: EC2 terminates them from {format_time(end)} UTC, 30 minutes before the end; "
        "save checkpoints first",
    ]
