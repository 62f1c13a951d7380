"""Parse and format periods of time on the command line, such as `10m` and `2d 3h`."""

import re
from datetime import datetime, timedelta
from typing import Final

from cli.errors import CommandError
from cli.exit_codes import USAGE

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)([smhd])")


def parse_period(text: str) -> timedelta:
    """Return the period.

    >>> parse_period("10m"), parse_period("1d12h")
    (datetime.timedelta(seconds=600), datetime.timedelta(days=1, seconds=43200))
    """
    compact = text.replace(" ", "")
    parts = _PART.findall(compact)
    if not parts or "".join(number + unit for number, unit in parts) != compact:
        raise CommandError(f"{text!r} is not a period. Use seconds, minutes, hours or days: 30s, 10m, 2h, 1d.", USAGE)
    return timedelta(seconds=sum(float(number) * _UNITS[unit] for number, unit in parts))


def format_period(period: timedelta) -> str:
    """Return a period as text, in its two largest units.

    >>> format_period(timedelta(days=2, hours=3, minutes=20)), format_period(timedelta(minutes=44, seconds=59))
    ('2 d 3 h', '44 min')
    """
    minutes = int(period.total_seconds() // 60)
    days, hours, rest = minutes // 1440, minutes // 60 % 24, minutes % 60
    if days:
        return f"{days} d {hours} h" if hours else f"{days} d"
    if hours:
        return f"{hours} h {rest} min" if rest else f"{hours} h"
    return f"{rest} min"


def format_duration(seconds: int) -> str:
    """Return a number of seconds as text for a table.

    >>> format_duration(7), format_duration(200), format_duration(7300)
    ('7s', '3m20s', '2h1m')
    """
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def format_time_ago(at: datetime | None, now: datetime) -> str:
    """Return the time since a moment, such as `3m20s ago`; empty without a moment."""
    return "" if at is None else f"{format_duration(max(0, int((now - at).total_seconds())))} ago"
