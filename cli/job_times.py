"""Durations in tables."""


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
