"""`python -m localcloud.pins [NAME...] [--json]`: print each pin and the newest version, with its source and date."""

import argparse
import json
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Final

from localcloud.pins import recorded, registries
from localcloud.pins.collect import Pin, collect_pins

UNKNOWN: Final = "unknown"
PARALLEL: Final = 4


@dataclass(frozen=True)
class Line:
    pin: str
    version: str
    file: str
    newest: str
    source: str
    date: str
    """Release date if the registry reports it, otherwise the date on which the newest version was looked up."""


def build_line(pin: Pin) -> Line:
    newest, source, date = _find_newest_version(pin)
    return Line(pin.name, pin.version, pin.file, newest, source, date)


def _find_newest_version(pin: Pin) -> tuple[str, str, str]:
    if pin.registry is not None:
        asked = f"{pin.registry}: {pin.package}"
        try:
            answer = registries.find_newest_version(pin)
        except registries.NotAnswered as reason:
            return UNKNOWN, f"{asked}: {reason}", ""
        if _parse_version(answer.version) < _parse_version(pin.version):  # an incomplete mirror
            return UNKNOWN, f"{asked}: lists only {answer.version}, older than the pin", ""
        return answer.version, asked, answer.released or f"{datetime.now(UTC):%Y-%m-%d}"
    if pin.name in recorded.RECORDED:
        record = recorded.RECORDED[pin.name]
        return record.newest, record.source, record.date
    place = recorded.WHERE.get(pin.name)
    return UNKNOWN, f"not recorded; look it up: {place}" if place else "no source is recorded in localcloud/pins", ""


def _parse_version(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def format_table(lines: Sequence[Line]) -> str:
    rows = [("pin", "version", "newest", "date", "source", "file")]
    rows += [(line.pin, line.version, line.newest, line.date, line.source, line.file) for line in lines]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    return "\n".join("  ".join([*map(str.ljust, row, widths), row[-1]]).rstrip() for row in rows)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m localcloud.pins", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="only pins whose name contains this text")
    parser.add_argument("--json", action="store_true", help="print one JSON list")
    chosen = parser.parse_args(arguments)
    pins = [pin for pin in collect_pins() if not chosen.names or any(name in pin.name for name in chosen.names)]
    with ThreadPoolExecutor(PARALLEL) as threads:
        lines = list(threads.map(build_line, pins))
    print(json.dumps([asdict(pin_line) for pin_line in lines], indent=2) if chosen.json else format_table(lines))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
