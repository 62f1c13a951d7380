"""Parse the timestamps of Kubernetes objects and job records, and format durations for tables."""

from datetime import UTC, datetime


def moment(text: str) -> datetime:
    """
    >>> moment("2026-11-23T12:00:00Z").isoformat()
    '2026-11-23T12:00:00+00:00'
    """
    return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(UTC)


def duration(seconds: int) -> str:
    """
    >>> duration(7), duration(200), duration(7300)
    ('7s', '3m20s', '2h1m')
    """
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
