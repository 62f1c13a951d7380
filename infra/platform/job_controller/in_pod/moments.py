"""Times in the format of the Kubernetes API."""

from datetime import UTC, datetime

EPOCH = "1970-01-01T00:00:00Z"


def parse_time(text: str) -> datetime:
    """Return the time in a text. Raises ValueError, also for a time that is outside the range of `datetime` in UTC."""
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(UTC)
    except OverflowError as error:
        raise ValueError(text) from error


def format_time(when: datetime) -> str:
    """
    >>> format_time(datetime(2026, 11, 23, 12, tzinfo=UTC))
    '2026-11-23T12:00:00Z'
    """
    return when.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def parse_exact_time(text: str) -> str | None:
    """Return the time of a log line with microseconds; None if the text is not a time. As text, such times sort
    chronologically.

    >>> [parse_exact_time(text) for text in ("2026-11-23T12:00:00.123456789Z", "2026-11-23T13:00:00+01:00", "hello")]
    ['2026-11-23T12:00:00.123456Z', '2026-11-23T12:00:00.000000Z', None]
    """
    whole, _, rest = text.partition(".")
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    try:
        when = parse_time(whole + rest[len(digits) :] if rest else text)
    except ValueError:
        return None
    return f"{when.strftime('%Y-%m-%dT%H:%M:%S')}.{digits[:6]:0<6}Z"


def count_seconds(start: str, end: str) -> float:
    """Return the seconds between two times; 0 if they are in the wrong order.

    >>> count_seconds("2026-11-23T12:00:00Z", "2026-11-23T12:01:30Z")
    90.0
    """
    return max(0.0, (parse_time(end) - parse_time(start)).total_seconds())


def find_latest_time(*times: str) -> str:
    """Return the latest of several times, ignoring empty ones.

    >>> find_latest_time("", "2026-11-23T12:00:00Z", "2026-11-23T11:00:00Z")
    '2026-11-23T12:00:00Z'
    """
    return max((time for time in times if time), key=parse_time, default="")
