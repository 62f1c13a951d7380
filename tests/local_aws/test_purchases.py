"""A purchase is sent at most once, and its outcome is reported even if AWS's answer is lost."""

import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import botocore.session
import pytest
from botocore import xform_name
from botocore.client import BaseClient
from botocore.exceptions import ReadTimeoutError

from cli import whole_files
from cli.capacity import order
from cli.errors import CommandError
from infra.facts import clients as clients_of_facts
from infra.facts.capacity import BlockOffering
from infra.facts.clients import Clients
from tests.local_aws.test_capacity_commands import STACK, aws_settings, find_offer, list_reservations, reserve, stack

__all__ = ("aws_settings", "stack")  # fixtures
REGION, BOUGHT = "us-west-2", "cr-0aaaaaaaaaaaaaaaa"
START = datetime(2026, 12, 1, 11, 30, tzinfo=UTC)

# --- each kind of lost answer, with a server that counts requests ------------------------------------------------------


class Ec2(ThreadingHTTPServer):
    """EC2 that carries out a purchase, but then answers in an unexpected way."""

    daemon_threads = True

    def __init__(self, reply: "Callable[[Handler], None]", *, commits: bool) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.reply, self.commits = reply, commits
        self.purchases: list[dict[str, str]] = []
        self.tags: list[str] = []
        """Tag values of the reservations that exist."""
        self.released = threading.Event()


class Handler(BaseHTTPRequestHandler):
    server: Ec2
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers["Content-Length"])).decode()
        values = {name: value for name, (value, *_) in parse_qs(text).items()}
        if values["Action"] == "PurchaseCapacityBlock":
            self.server.purchases.append(values)
            if self.server.commits:
                self.server.tags.append(values["TagSpecification.1.Tag.1.Value"])
            self.server.reply(self)
        else:
            there = values["Filter.1.Value.1"] in self.server.tags and values["Filter.1.Name"] == "tag:gpumpi:order"
            item = f"<item><capacityReservationId>{BOUGHT}</capacityReservationId></item>" if there else ""
            self.send_answer(200, f"<X><capacityReservationSet>{item}</capacityReservationSet></X>")

    def send_answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None: ...


def close_connection(handler: Handler) -> None:
    handler.connection.shutdown(socket.SHUT_RDWR)
    handler.close_connection = True


def truncate_response(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b"<PurchaseCap")
    close_connection(handler)


def hold_response(handler: Handler) -> None:
    handler.server.released.wait(30)
    handler.close_connection = True


def make_error_reply(status: int, code: str) -> Callable[[Handler], None]:
    text = f"<Response><Errors><Error><Code>{code}</Code><Message>no</Message></Error></Errors></Response>"
    return lambda handler: handler.send_answer(status, text)


LOST: dict[str, Callable[[Handler], None]] = {
    "the connection is closed": close_connection,
    "the answer is cut off": truncate_response,
    "the server is silent": hold_response,
    "an internal error": make_error_reply(500, "InternalError"),
    "a gateway's error page": lambda handler: handler.send_answer(502, "<html>Bad gateway</html>"),
    "an unavailable service": make_error_reply(503, "Unavailable"),
    "throttling after the purchase": make_error_reply(503, "RequestLimitExceeded"),
    "an answer that is not XML": lambda handler: handler.send_answer(200, "ok"),
}


@pytest.fixture
def start_ec2_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Ec2]]:
    servers: list[Ec2] = []
    for name, value in {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_MAX_ATTEMPTS": "5"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(clients_of_facts, "PURCHASE_SECONDS", 0.3)

    def start(reply: Callable[[Handler], None], *, commits: bool = True) -> Ec2:
        server = Ec2(reply, commits=commits)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.released.set()
        server.shutdown()
        server.server_close()


def make_offering() -> BlockOffering:
    values: dict[str, Any] = dict.fromkeys(BlockOffering.__dataclass_fields__)
    values |= {"id": "cb-0123456789abcdef0", "region": REGION, "zone": "us-west-2a", "start": START}
    return BlockOffering(**values)


class Clock:
    def __init__(self) -> None:
        self.moment = START

    def now(self) -> datetime:
        return self.moment

    def pause(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)


@pytest.mark.parametrize("case", LOST)
def test_a_purchase_with_a_lost_response_is_sent_once_and_found(start_ec2_server: Callable[..., Ec2], case: str) -> None:
    server = start_ec2_server(LOST[case])
    assert order.buy_block(Clients(REGION), make_offering())["CapacityReservationId"] == BOUGHT
    assert len(server.purchases) == 1


@pytest.mark.parametrize("case", LOST)
def test_a_purchase_that_does_not_appear_is_reported_with_a_command_to_check_it(
    start_ec2_server: Callable[..., Ec2], case: str
) -> None:
    server, clock = start_ec2_server(LOST[case], commits=False), Clock()
    with pytest.raises(CommandError, match=r"AWS shows no reservation after 120 s\. It may still have been bought") as raised:
        order.buy_block(Clients(REGION), make_offering(), now=clock.now, pause=clock.pause)
    (purchase,) = server.purchases
    value = purchase["TagSpecification.1.Tag.1.Value"]
    command = f"aws ec2 describe-capacity-reservations --region {REGION} --filters Name=tag:gpumpi:order,Values={value}"
    assert str(raised.value).endswith(command)


def test_a_reservation_that_appears_late_is_found(start_ec2_server: Callable[..., Ec2]) -> None:
    server, clock = start_ec2_server(close_connection, commits=False), Clock()

    def pause(seconds: float) -> None:
        clock.pause(seconds)
        if clock.moment - START > timedelta(seconds=60):
            server.tags.append(server.purchases[0]["TagSpecification.1.Tag.1.Value"])

    assert order.buy_block(Clients(REGION), make_offering(), now=clock.now, pause=pause)["CapacityReservationId"] == BOUGHT
    assert len(server.purchases) == 1


def test_each_purchase_has_a_unique_tag(start_ec2_server: Callable[..., Ec2]) -> None:
    server = start_ec2_server(close_connection)
    for _ in range(2):
        order.buy_block(Clients(REGION), make_offering())
    first, second = (purchase["TagSpecification.1.Tag.1.Value"] for purchase in server.purchases)
    assert first != second and first.startswith("cb-0123456789abcdef0.")


def test_a_purchase_refused_by_aws_is_not_looked_up(start_ec2_server: Callable[..., Ec2]) -> None:
    server = start_ec2_server(make_error_reply(400, "CapacityBlockOfferingExpired"), commits=False)
    with pytest.raises(CommandError, match="CapacityBlockOfferingExpired") as raised:
        order.buy_block(Clients(REGION), make_offering())
    assert len(server.purchases) == 1 and "may still have been bought" not in str(raised.value)


def test_a_purchase_that_was_never_sent_is_not_looked_up(
    monkeypatch: pytest.MonkeyPatch, start_ec2_server: Callable[..., Ec2]
) -> None:
    start_ec2_server(close_connection)
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(CommandError, match=r"^AWS is not reachable in Region us-west-2"):
        order.buy_block(Clients(REGION), make_offering())


# --- the command -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("account_credentials")
@pytest.mark.parametrize("interrupts", [False, True], ids=["timeout", "Ctrl+C"])
def test_reserve_reports_and_records_a_purchase_with_a_lost_response(
    stack: Path, monkeypatch: pytest.MonkeyPatch, interrupts: bool
) -> None:
    identifier, call, sent = find_offer()["id"], BaseClient._make_api_call, []

    def lose_response(client: Any, operation: str, arguments: dict[str, Any]) -> Any:
        answer = call(client, operation, arguments)
        if operation == "PurchaseCapacityBlock":
            sent.append(arguments)
            raise KeyboardInterrupt if interrupts else ReadTimeoutError(endpoint_url="https://ec2")
        return answer

    monkeypatch.setattr(BaseClient, "_make_api_call", lose_response)
    done = reserve(stack, identifier, "--yes", "--json")
    (bought,) = list_reservations()
    assert (done.exit_code, len(sent)) == (0, 1), done.output
    assert json.loads(done.stdout)["reservationId"] == bought["CapacityReservationId"]
    assert f"reservationId: {bought['CapacityReservationId']}" in stack.read_text()
    assert "AWS's answer to the purchase was lost" in done.stderr


@pytest.mark.usefixtures("account_credentials")
def test_a_purchase_is_reported_even_if_the_stack_file_cannot_be_written(stack: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    identifier, write = find_offer()["id"], whole_files.write_file

    def fail(path: Path, text: str, **more: bool) -> None:
        if path == stack:
            raise OSError(28, "No space left on device", str(path))
        write(path, text, **more)

    monkeypatch.setattr(whole_files, "write_file", fail)
    done = reserve(stack, identifier, "--yes")
    (bought,) = list_reservations()
    assert done.exit_code == 1 and stack.read_text() == STACK
    assert (
        f"{bought['CapacityReservationId']} was bought, but {stack} cannot be written: No space left on device. " in done.stderr
    )


# --- every call that costs money ---------------------------------------------------------------------------------------

ROOT = Path(__file__).parents[2]
PAID = re.compile(r"(purchase|create|run|allocate|request|accept|register|start|copy|provision|restore|import|put)_\w+")
ONCE = {"purchase_capacity_block": "ec2_once"}
"""Maps calls that create something, have no client token and are sent by the program itself to the client that sends them."""
HARMLESS = {"copy_object": "the key contains a random ID", "create_tags": "repeats have no effect"}


def list_untokened_operations() -> dict[str, str]:
    """Return a mapping from boto3 methods to services, for all operations that create something and have no idempotency token."""
    session, methods = botocore.session.get_session(), {}
    for service in ("autoscaling", "ec2", "ecr", "efs", "eks", "fsx", "iam", "kms", "logs", "s3", "service-quotas", "ssm"):
        model = session.get_service_model(service)
        for name in model.operation_names:
            shape = model.operation_model(name).input_shape
            tokens = [member for member in shape.members.values() if member.metadata.get("idempotencyToken")] if shape else []
            if not tokens and PAID.fullmatch(xform_name(name)):
                methods[xform_name(name)] = service
    return methods


def test_every_paid_call_without_a_client_token_is_sent_at_most_once() -> None:
    operations = list_untokened_operations()
    called = {
        name
        for folder in ("cli", "infra/facts", "infra/recovery", "infra/checks")
        for module in (ROOT / folder).rglob("*.py")
        for name in re.findall(r"\.([a-z]+(?:_[a-z0-9]+)+)\(", module.read_text())
        if name in operations
    }
    assert called - HARMLESS.keys() == set(ONCE)
    for method, attribute in ONCE.items():
        client = getattr(Clients(REGION), attribute)
        assert hasattr(client, method)
        assert client.meta.config.retries["total_max_attempts"] == 1
        assert client.meta.config.read_timeout >= 60
