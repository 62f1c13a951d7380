"""The runbooks of all alerts, for docs/operations.md."""

import re
import textwrap
from typing import Final

from infra.monitoring import faults, parts
from infra.monitoring.model import Alert, Monitored, RemoteWrite

EVERYTHING: Final = Monitored("any", parts.PARTS, remote_write=RemoteWrite("https://any.example.com"))
"""A cluster with every part, and therefore with every alert."""
WIDTH: Final = 120
_GLUE: Final = "\x00"
"""Replaces the spaces in a command, because a command must stay on one line."""


def markdown() -> str:
    sections = [
        ("Faults of nodes", tuple(faults.alerts())),
        ("Parts of the platform", tuple(parts.alerts(parts.PARTS))),
        ("The monitoring itself", tuple(parts.of_monitoring(EVERYTHING))),
    ]
    return "\n".join(f"### {title}\n\n" + "\n".join(map(_runbook, alerts)) for title, alerts in sections)


def _runbook(alert: Alert) -> str:
    whole = re.sub(r"`[^`]+`", lambda code: code[0].replace(" ", _GLUE), f"{alert.meaning} **Do:** {alert.fix}")
    text = textwrap.fill(whole, WIDTH, break_long_words=False, break_on_hyphens=False).replace(_GLUE, " ")
    return f"#### {alert.name}\n\n{text}\n"
