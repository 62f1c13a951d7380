"""The pages of docs/runbooks: one per alert, and their index."""

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
_INTRODUCTION: Final = (
    "One page per alert. `platform.monitoring: true` enables the alerts ([guide](../guides/watch.md#metrics-and-alerts)). "
    "The severity `info` means that no node needs a repair. `warning` means that a part of the cluster is affected, such as "
    "a node. `critical` means that a component of the platform is down in the whole cluster."
)


def group_alerts_by_section() -> dict[str, tuple[Alert, ...]]:
    return {
        "Faults of nodes": tuple(faults.list_fault_alerts()),
        "Parts of the platform": tuple(parts.list_part_alerts(parts.PARTS)),
        "The monitoring itself": tuple(parts.list_monitoring_alerts(EVERYTHING)),
    }


def render_pages() -> dict[str, str]:
    """Return a mapping from file names to the text of the pages, including the index README.md."""
    alerts = [alert for group in group_alerts_by_section().values() for alert in group]
    return {"README.md": _render_index()} | {f"{alert.name}.md": _render_page(alert) for alert in alerts}


def _render_index() -> str:
    lines = ["# Runbooks", "", _wrap_text(_INTRODUCTION)]
    for title, alerts in group_alerts_by_section().items():
        lines += ["", f"## {title}", "", "| alert | severity | meaning |", "|---|---|---|"]
        lines += [f"| [{alert.name}]({alert.name}.md) | {alert.severity} | {alert.meaning} |" for alert in alerts]
    return "\n".join(lines) + "\n"


def _render_page(alert: Alert) -> str:
    since = "at once" if alert.hold == "0m" else f"when this has lasted for {alert.hold}"
    return "\n".join(
        [
            f"# {alert.name}",
            "",
            _wrap_text(alert.meaning),
            "",
            _wrap_text(f"**Do:** {alert.fix}"),
            "",
            f"Severity: {alert.severity}. The alert fires {since}. [All runbooks](README.md). Expression:",
            "",
            f"```promql\n{alert.expr}\n```\n",
        ]
    )


def _wrap_text(text: str) -> str:
    whole = re.sub(r"`[^`]+`", lambda code: code[0].replace(" ", _GLUE), text)
    return textwrap.fill(whole, WIDTH, break_long_words=False, break_on_hyphens=False).replace(_GLUE, " ")
