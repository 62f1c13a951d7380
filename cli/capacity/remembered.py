"""Offerings that `capacity find` has shown. `capacity reserve` needs them, because AWS cannot look up an offering by
its ID.
"""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from cli import whole_files
from infra.facts.capacity import BlockOffering

KEPT: Final = 500
_OFFERINGS: Final = TypeAdapter(dict[str, BlockOffering])


def get_cache_file() -> Path:
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpumpi"
    return folder / "capacity-offerings.json"


def save_offerings(offerings: Iterable[BlockOffering]) -> None:
    """Add the offerings to the file. If the file cannot be written, ignore the error: the user then has to run `find`
    again before `reserve`.
    """
    new = {offering.id: offering for offering in offerings}
    earlier = {name: offering for name, offering in _read_offerings().items() if name not in new}
    latest = dict(list({**earlier, **new}.items())[-KEPT:])
    with suppress(OSError):
        whole_files.write_file(get_cache_file(), _OFFERINGS.dump_json(latest, indent=1).decode())


def find_offering(identifier: str) -> BlockOffering | None:
    return _read_offerings().get(identifier)


def _read_offerings() -> dict[str, BlockOffering]:
    """Return the offerings in the file; none if it is missing or another version wrote it."""
    try:
        return _OFFERINGS.validate_json(get_cache_file().read_bytes())
    except (OSError, ValueError):
        return {}
