"""Send the purchase of a Capacity Block at most once, and find out what happened if AWS's answer is lost.

PurchaseCapacityBlock has no client token: AWS would treat a repeated request as another purchase.
https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_PurchaseCapacityBlock.html
"""

import secrets
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from botocore.exceptions import (
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
)

from cli.aws_queries import query_aws
from cli.console import say
from cli.errors import CommandError
from cli.exit_codes import FAILED, REFUSED, UNREACHABLE
from infra.facts.capacity import BlockOffering
from infra.facts.clients import Clients
from infra.facts.model import FactsError
from infra.facts.price_list import PLATFORM
from infra.naming import ORDER_TAG

LOOK_UP: Final = timedelta(minutes=2)
"""How long to look for a reservation whose purchase has an unknown outcome: EC2's API is eventually consistent."""
EVERY_SECONDS: Final = 5.0
_NOTHING_SENT: Final = (
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
)
_SERVER_ERRORS: Final = 500


class OutcomeUnknown(Exception):
    """AWS may have received the request, but did not answer whether it carried it out."""


def check_purchase(clients: Clients, offering: BlockOffering) -> None:
    """Check that AWS would accept the purchase. Raises CommandError if it would not."""
    try:
        call_aws(clients.region, lambda: purchase_block(clients.ec2, offering, make_order_tag(offering), DryRun=True))
    except CommandError as error:
        if "DryRunOperation" not in str(error):
            raise


def buy_block(
    clients: Clients,
    offering: BlockOffering,
    *,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    pause: Callable[[float], object] = time.sleep,
) -> dict[str, Any]:
    """Buy the block and return its reservation. This cannot be undone.

    If the answer is lost, look up the reservation. Raises CommandError if there is none, with a way to check again.
    """
    order = make_order_tag(offering)
    try:
        answer = call_aws(clients.region, lambda: try_purchase(clients, offering, order))
    except OutcomeUnknown as error:
        say(f"AWS's answer to the purchase was lost ({error}); looking for the reservation with the tag {ORDER_TAG}={order}")
        return _find_reservation(clients, offering, order, now, pause)
    reservation: dict[str, Any] = answer["CapacityReservation"]
    return reservation


def make_order_tag(offering: BlockOffering) -> str:
    """Return a tag value that identifies one purchase."""
    return f"{offering.id}.{secrets.token_hex(8)}"


def purchase_block(client: Any, offering: BlockOffering, order: str, **more: Any) -> Any:
    tags = [{"ResourceType": "capacity-reservation", "Tags": [{"Key": ORDER_TAG, "Value": order}]}]
    return client.purchase_capacity_block(
        CapacityBlockOfferingId=offering.id, InstancePlatform=PLATFORM, TagSpecifications=tags, **more
    )


def try_purchase(clients: Clients, offering: BlockOffering, order: str) -> Any:
    """Send the request once. Raises OutcomeUnknown unless AWS refuses the request or cannot have received it."""
    client = clients.ec2_once
    try:
        return purchase_block(client, offering, order)
    except _NOTHING_SENT:
        raise
    except ClientError as error:
        if error.response["ResponseMetadata"].get("HTTPStatusCode", _SERVER_ERRORS) < _SERVER_ERRORS:
            raise
        raise OutcomeUnknown(format_error(error)) from None
    except (Exception, KeyboardInterrupt) as error:  # for example a timeout, a lost connection or a truncated response
        raise OutcomeUnknown(format_error(error) or "interrupted") from None


def _find_reservation(
    clients: Clients,
    offering: BlockOffering,
    order: str,
    now: Callable[[], datetime],
    pause: Callable[[float], object],
) -> dict[str, Any]:
    """Return the reservation of an order. Raises CommandError if it does not appear in time."""
    filters = [{"Name": f"tag:{ORDER_TAG}", "Values": [order]}]
    command = f"aws ec2 describe-capacity-reservations --region {clients.region} --filters Name=tag:{ORDER_TAG},Values={order}"
    fix = f"It may still have been bought: before you buy again, check that this command prints no reservation: {command}"
    deadline = now() + LOOK_UP
    while True:
        try:
            answer = call_aws(clients.region, lambda: clients.ec2.describe_capacity_reservations(Filters=filters))
        except (CommandError, KeyboardInterrupt) as error:
            reason = format_error(error) or "interrupted"
            raise CommandError(f"{offering.id}: the reservation could not be looked up: {reason}. {fix}", FAILED) from None
        reservations: list[dict[str, Any]] = answer["CapacityReservations"]
        if reservations:
            return reservations[0]
        if now() >= deadline:
            raise CommandError(f"{offering.id}: AWS shows no reservation after {LOOK_UP.seconds} s. {fix}", FAILED)
        try:
            pause(EVERY_SECONDS)
        except KeyboardInterrupt:
            raise CommandError(f"{offering.id}: interrupted before the reservation appeared in AWS. {fix}", FAILED) from None


def call_aws(region: str, call: Callable[[], Any]) -> Any:
    """Return AWS's response. Raises CommandError."""
    try:
        return query_aws(region, call, "")
    except FactsError as error:
        cause = error.__context__
        code = REFUSED if isinstance(cause, ClientError) else UNREACHABLE
        raise CommandError(str(error), code) from None


def format_error(error: BaseException) -> str:
    return " ".join(str(error).split())
