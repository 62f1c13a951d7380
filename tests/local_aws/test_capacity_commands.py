"""`capacity find` and `capacity reserve` against the local AWS in this process."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from cli import main
from cli.capacity import order, purchase
from infra.facts import capacity
from infra.facts.capacity import Wanted
from infra.facts.clients import Clients
from localcloud.aws import clock, durations, faults
from localcloud.aws.ec2 import capacity_reservations
from localcloud.aws.permissions import organization
from testkit.aws_clients import REGION, Client

NOW = datetime(2026, 11, 23, 9, 10, tzinfo=UTC)
STACK = """\
config:
  aws:region: us-west-2
  gpumpi:target:
    kind: eks
    endpointAccess: {publicCidrs: [203.0.113.0/24]}
  gpumpi:pools:
    - name: train  # the large one
      instanceType: p5.48xlarge
      maxSize: 4
"""

pytestmark = pytest.mark.usefixtures("account_credentials")


@pytest.fixture(autouse=True)
def aws_settings(aws: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(clock, "read_system_clock", lambda: NOW)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    yield


@pytest.fixture
def stack(tmp_path: Path) -> Path:
    path = tmp_path / "Pulumi.big.yaml"
    path.write_text(STACK)
    return path


def run_capacity_command(*arguments: str) -> Result:
    return CliRunner().invoke(main.app, ["capacity", *arguments])


def find_offer(nodes: int = 2, days: int = 1) -> dict[str, Any]:
    done = run_capacity_command("find", "p5.48xlarge", "--nodes", str(nodes), "--days", str(days), "--regions", REGION, "--json")
    assert done.exit_code == 0, done.output
    choices: list[dict[str, Any]] = json.loads(done.stdout)["choices"]
    return next(choice for choice in choices if choice["kind"] == "block")


def reserve(stack: Path, identifier: str, *more: str) -> Result:
    return run_capacity_command("reserve", identifier, "-s", "big", "--config-dir", str(stack.parent), *more)


def list_reservations() -> list[dict[str, Any]]:
    own_reservations: list[dict[str, Any]] = Clients(REGION).ec2.describe_capacity_reservations()["CapacityReservations"]
    return own_reservations


def test_find_lists_own_reservations_blocks_spot_prices_and_zones() -> None:
    capacity_reservations.seed_reservation("p5.48xlarge", "us-west-2a", 4, match="targeted")
    report = capacity.find_capacity(Wanted("p5.48xlarge", 2, 24, spot=True), (REGION, "eu-west-1"), REGION)
    here, ireland = report.regions
    assert (report.gpus, report.on_demand[REGION]) == (8, 55.04) or float(report.on_demand[REGION]) == 55.04
    assert [(reservation.total, reservation.available) for reservation in here.reservations] == [(4, 4)]
    assert len(here.blocks) == 6 and len(here.zones) == 4
    assert set(here.spot_prices) == set(here.zones) == set(here.spot_scores)
    assert (ireland.zones, ireland.refusals) == ((), ())


def test_a_region_that_denies_access_is_listed_with_the_reason() -> None:
    faults.add_fault(faults.Fault("ec2", "DescribeCapacityBlockOfferings", "UnauthorizedOperation"))
    done = run_capacity_command("find", "p5.48xlarge", "--regions", REGION)
    assert done.exit_code == 0
    assert "us-west-2: Capacity Blocks: you may not call DescribeCapacityBlockOfferings" in done.stdout


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("MaxConfigLimitExceeded", "MaxConfigLimitExceeded"),
        ("UnauthorizedOperation", "you may not call GetSpotPlacementScores"),
    ],
)
def test_missing_placement_scores_are_listed_with_the_reason(code: str, reason: str) -> None:
    faults.add_fault(faults.Fault("ec2", "GetSpotPlacementScores", code))
    [west] = capacity.find_capacity(Wanted("p5.48xlarge", 2, 24, spot=True), (REGION,), REGION).regions
    assert west.spot_prices and not west.spot_scores
    assert [refusal for refusal in west.refusals if refusal.startswith("placement scores: ") and reason in refusal]
    faults.add_fault(faults.Fault("ec2", "GetSpotPlacementScores", code))
    assert "us-west-2: placement scores: " in run_capacity_command("find", "p5.48xlarge", "--regions", REGION, "--spot").stdout


def test_a_region_without_blocks_is_not_an_error() -> None:
    [ireland] = capacity.find_capacity(Wanted("p4d.24xlarge", 2, 24), ("eu-west-1",), REGION).regions
    assert (ireland.blocks, ireland.refusals, bool(ireland.zones)) == ((), (), True)


def test_find_shows_the_largest_block_if_none_is_large_enough() -> None:
    for zone in ("a", "b", "c", "d"):
        capacity_reservations.seed_reservation("p5.48xlarge", f"us-west-2{zone}", 54, kind="capacity-block", days=120)
    [west] = capacity.find_capacity(Wanted("p5.48xlarge", 16, 24), (REGION,), REGION).regions
    assert (west.blocks, west.largest_block) == ((), 10)


def test_the_requested_dates_limit_start_and_end_of_blocks() -> None:
    dates = Wanted("p5.48xlarge", 2, 24, NOW + timedelta(days=3), NOW + timedelta(days=5))
    [west] = capacity.find_capacity(dates, (REGION,), REGION).regions
    assert west.blocks and all(
        NOW + timedelta(days=3) <= block.start < block.end <= NOW + timedelta(days=5) for block in west.blocks
    )


def test_search_progress_counts_every_region() -> None:
    progress: list[tuple[int, int]] = []
    capacity.find_capacity(
        Wanted("p5.48xlarge", 2, 24), (REGION, "us-east-1"), REGION, lambda done, of: progress.append((done, of))
    )
    assert progress == [(1, 2), (2, 2)]


def test_an_unknown_instance_type_or_region_is_refused() -> None:
    assert run_capacity_command("find", "p9.48xlarge", "--regions", REGION).exit_code == 4
    done = run_capacity_command("find", "p5.48xlarge", "--regions", "us-west-9")
    assert (done.exit_code, "--regions: us-west-9 is not a Region" in done.stderr) == (2, True)
    assert run_capacity_command("find", "p5.48xlarge", "--days", "1", "--hours", "2").exit_code == 2


def test_reserve_dry_run_shows_the_price_and_the_change_and_buys_nothing(stack: Path) -> None:
    offering = find_offer()
    done = reserve(stack, offering["id"], "--dry-run")
    assert done.exit_code == 0, done.output
    assert f"price: ${offering['usd']:,.2f} USD, paid now; a Capacity Block cannot be cancelled" in done.stdout
    assert "+      capacity: {kind: capacity-block, reservationId: cr-00000000000000000}" in done.stdout
    assert (stack.read_text(), list_reservations()) == (STACK, [])


def test_reserve_buys_the_reservation_and_writes_it_into_the_stack_file(stack: Path) -> None:
    done = reserve(stack, find_offer()["id"], "--yes", "--json")
    assert done.exit_code == 0, done.output
    document, [bought] = json.loads(done.stdout), list_reservations()
    assert (document["reservationId"], document["state"]) == (bought["CapacityReservationId"], "scheduled")
    text = stack.read_text()
    assert f"capacity: {{kind: capacity-block, reservationId: {bought['CapacityReservationId']}}}" in text
    assert "- name: train  # the large one" in text and "maxSize: 2" in text
    assert any("drained from" in line and "45 minutes before the end" in line for line in document["up"])


def test_reserve_warns_that_nothing_starts_or_drains_nodes_of_an_ec2_cluster(stack: Path) -> None:
    target = "kind: eks\n    endpointAccess: {publicCidrs: [203.0.113.0/24]}"
    stack.write_text(STACK.replace(target, "kind: ec2").replace("maxSize: 4", "maxSize: 4\n      desiredSize: 4"))
    done = reserve(stack, find_offer()["id"], "--dry-run", "--json")
    assert done.exit_code == 0, done.output
    uses, starts, ends = json.loads(done.stdout)["up"]
    assert uses.startswith("pool train uses the block in us-west-2")
    assert starts.startswith("nothing starts its nodes: ") and ends.startswith("nothing drains its nodes: EC2 terminates them")
    assert "SIGTERM" not in done.stdout


def test_reserve_buys_nothing_without_confirmation(stack: Path) -> None:
    done = reserve(stack, find_offer()["id"])
    assert (done.exit_code, "the purchase needs confirmation" in done.stderr) == (3, True)
    assert (stack.read_text(), list_reservations()) == (STACK, [])


def test_reserve_buys_nothing_for_an_invalid_stack_file(stack: Path) -> None:
    stack.write_text(STACK.replace("maxSize: 4", "maxSize: 4\n      efa: 7"))
    done = reserve(stack, find_offer()["id"], "--yes")
    assert (done.exit_code, "nothing was bought" in done.stderr, list_reservations()) == (3, True, [])


def test_reserve_buys_nothing_in_a_region_other_than_that_of_the_stack(stack: Path) -> None:
    stack.write_text(STACK.replace("us-west-2", "us-east-1"))
    done = reserve(stack, find_offer()["id"], "--yes")
    assert (done.exit_code, "but aws:region of Pulumi.big.yaml is us-east-1" in done.stderr) == (3, True)


def test_reserve_without_permission_leaves_the_stack_file_unchanged(stack: Path) -> None:
    offering = find_offer()
    organization.deny_action("ec2:PurchaseCapacityBlock")
    done = reserve(stack, offering["id"], "--yes")
    assert (done.exit_code, "you are not allowed to call ec2:PurchaseCapacityBlock" in done.stderr) == (5, True)
    assert (stack.read_text(), list_reservations()) == (STACK, [])


def test_an_expired_or_unknown_offering_is_reported_as_not_found(stack: Path) -> None:
    offering = find_offer()
    clock.advance(timedelta(days=60))
    done = reserve(stack, offering["id"], "--yes")
    assert (done.exit_code, "AWS no longer offers" in done.stderr) == (4, True)
    assert reserve(stack, "cb-00000000000000000", "--yes").exit_code == 4


def test_the_wait_for_payment_ends_after_payment_or_at_the_time_limit() -> None:
    durations.set_factor(1)
    offering = next(iter(capacity.find_capacity(Wanted("p5.48xlarge", 2, 24), (REGION,), REGION).regions)).blocks[0]
    clients = Clients(REGION)
    bought = str(order.buy_block(clients, offering)["CapacityReservationId"])
    moments = iter(NOW + timedelta(seconds=seconds) for seconds in (0, 10, 20))
    paused: list[float] = []
    state = purchase.wait_until_paid(clients, bought, timedelta(seconds=15), now=lambda: next(moments), pause=paused.append)
    assert (state, paused) == ("payment-pending", [5.0])


def test_a_failed_payment_is_an_error() -> None:
    block = capacity_reservations.seed_reservation("p5.48xlarge", "us-west-2a", 1, kind="capacity-block", state="payment-failed")
    with pytest.raises(Exception, match=f"could not collect the payment: {block} is payment-failed"):
        purchase.wait_until_paid(Clients(REGION), block, timedelta(0), now=lambda: NOW, pause=lambda _: None)
