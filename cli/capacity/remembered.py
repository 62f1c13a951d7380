"""Offerings that `capacity find` has shown. `capacity reserve` needs them, because AWS cannot look up an offering by
its ID.
"""

import json
import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

from cli import whole_files
from infra.facts.capacity import BlockOffering

KEPT: Final = 500


def cache_file() -> Path:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpumpi"
    return folder / "capacity-offerings.json"


def save(offerings: Iterable[BlockOffering]) -> None:
    """Add the offerings to the file. If the file cannot be written, ignore the error: the user then has to run `find`
    again before `reserve`.
    """
    new = {offering.id: to_json(offering) for offering in offerings}
    earlier = {name: offering for name, offering in _read().items() if name not in new}
    latest = dict(list({**earlier, **new}.items())[-KEPT:])
    try:
        whole_files.write(cache_file(), json.dumps(latest, indent=1))
    except OSError:
        return


def find(identifier: str) -> BlockOffering | None:
    entry = _read().get(identifier)
    return None if entry is None else from_json(entry)


def _read() -> dict[str, Any]:
    try:
        content = json.loads(cache_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def to_json(offering: BlockOffering) -> dict[str, object]:
    values = {**vars(offering), "hours": str(offering.hours), "fee": None if offering.fee is None else str(offering.fee)}
    return values | {"start": offering.start.astimezone(UTC).isoformat(), "end": offering.end.astimezone(UTC).isoformat()}


def from_json(entry: Mapping[str, Any]) -> BlockOffering:
    dates = {name: datetime.fromisoformat(entry[name]) for name in ("start", "end")}
    amounts = {"hours": Decimal(entry["hours"]), "fee": None if entry["fee"] is None else Decimal(entry["fee"])}
    return BlockOffering(**{**entry, **dates, **amounts})
