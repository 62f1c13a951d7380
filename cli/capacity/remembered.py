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


def path() -> Path:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpumpi"
    return folder / "capacity-offerings.json"


def save(offerings: Iterable[BlockOffering]) -> None:
    """Add the offerings to the file. If the file cannot be written, ignore the error: the user then has to run `find`
    again before `reserve`.
    """
    new = {one.id: _as_json(one) for one in offerings}
    known = {name: one for name, one in _read().items() if name not in new}
    kept = dict(list({**known, **new}.items())[-KEPT:])
    try:
        whole_files.write(path(), json.dumps(kept, indent=1))
    except OSError:
        return


def find(identifier: str) -> BlockOffering | None:
    found = _read().get(identifier)
    return None if found is None else _from_json(found)


def _read() -> dict[str, Any]:
    try:
        found = json.loads(path().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _as_json(one: BlockOffering) -> dict[str, object]:
    values = {**vars(one), "hours": str(one.hours), "fee": None if one.fee is None else str(one.fee)}
    return values | {"start": one.start.astimezone(UTC).isoformat(), "end": one.end.astimezone(UTC).isoformat()}


def _from_json(found: Mapping[str, Any]) -> BlockOffering:
    dates = {name: datetime.fromisoformat(found[name]) for name in ("start", "end")}
    amounts = {"hours": Decimal(found["hours"]), "fee": None if found["fee"] is None else Decimal(found["fee"])}
    return BlockOffering(**{**found, **dates, **amounts})
