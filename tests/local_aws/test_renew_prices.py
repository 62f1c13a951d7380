"""`renew_prices` writes prices from the Price List to the snapshot, with the date of the query."""

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from infra.cost import prices
from infra.facts import price_list, renew_prices
from infra.facts.price_list import Wanted
from localcloud.aws.permissions import organization
from testkit.aws_clients import REGION, Client

pytestmark = pytest.mark.usefixtures("account_credentials")
M7I = "0.1008000000"
"""Price of m7i.large in the local Price List."""


@pytest.fixture(autouse=True)
def snapshot(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Use a copy of the price snapshot, and an empty cache."""
    copy = tmp_path / "prices.json"
    copy.write_text(prices.SNAPSHOT.read_text(encoding="utf-8"), encoding="utf-8")
    monkeypatch.setattr(renew_prices, "SNAPSHOT", copy)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return copy


def read_renewed(snapshot: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the snapshot's entry for today's price source, and the instance prices from this source."""
    content = json.loads(snapshot.read_text(encoding="utf-8"))
    name = f"price-list-{datetime.now(UTC).date().isoformat()}"
    return content["sources"][name], content["instances"][REGION][name]


def test_the_price_snapshot_gets_prices_from_the_price_list_with_the_current_date(aws: Client, snapshot: Path) -> None:
    assert renew_prices.renew_region_prices(REGION) > 20
    source, instances = read_renewed(snapshot)
    assert source == {"title": "AWS Price List", "date": datetime.now(UTC).date().isoformat(), "verified": True}
    assert instances["m7i.large"] == M7I


def test_cached_prices_do_not_get_the_current_date(aws: Client, snapshot: Path, tmp_path: Path) -> None:
    price_list.read(Wanted(REGION, frozenset({"m7i.large"}), frozenset()))
    [cache] = (tmp_path / "cache").rglob("*.json")
    cached = json.loads(cache.read_text())
    earlier = (datetime.now(UTC) - timedelta(hours=23)).isoformat()
    cache.write_text(json.dumps({name: {"usd": "1", "read": earlier} for name in cached}))
    assert price_list.read(Wanted(REGION, frozenset({"m7i.large"}), frozenset())).instances["m7i.large"].usd == Decimal(1)
    renew_prices.renew_region_prices(REGION)
    assert read_renewed(snapshot)[1]["m7i.large"] == M7I


def test_nothing_is_written_if_the_price_list_does_not_respond(aws: Client, snapshot: Path) -> None:
    before = snapshot.read_text()
    organization.deny_action("pricing:GetProducts")
    with pytest.raises(SystemExit, match="you may not call pricing:GetProducts; nothing was written"):
        renew_prices.renew_region_prices(REGION)
    assert snapshot.read_text() == before
