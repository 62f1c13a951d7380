"""Dashboards in Grafana's JSON format:
https://grafana.com/docs/grafana/latest/visualizations/dashboards/build-dashboards/view-dashboard-json-model/"""

import json
from collections.abc import Mapping
from typing import Any, Final

from infra.monitoring.dashboards import DASHBOARDS, Dashboard, Panel, Variable

SCHEMA: Final = 39
"""Schema version of Grafana 11. Newer versions of Grafana migrate dashboards with this schema."""
COLUMNS: Final = 24
"""Width of Grafana's grid."""
SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}


def render_dashboards() -> Mapping[str, str]:
    """Return the JSON of each dashboard, keyed by file name."""
    return {f"{board.name}.json": json.dumps(build_dashboard(board), indent=1, sort_keys=True) + "\n" for board in DASHBOARDS}


def build_dashboard(board: Dashboard) -> dict[str, Any]:
    return {
        "uid": f"gpumpi-{board.name}",
        "title": f"gpumpi: {board.title}",
        "tags": ["gpumpi"],
        "schemaVersion": SCHEMA,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_build_data_source(), *map(_build_variable, board.variables)]},
        "panels": _arrange_panels(board.panels),
    }


def _build_data_source() -> dict[str, Any]:
    return {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


def _build_variable(variable: Variable) -> dict[str, Any]:
    query = f"label_values({variable.metric}, {variable.label})"
    return {
        "name": variable.name,
        "type": "query",
        "datasource": SOURCE,
        "definition": query,
        "query": {"query": query, "refId": variable.name},
        "refresh": 2,  # 2: refresh when the time range changes
        "includeAll": True,
        "multi": True,
        "allValue": ".+",
        "current": {"text": "All", "value": "$__all"},
    }


def _arrange_panels(panels: tuple[Panel, ...]) -> list[dict[str, Any]]:
    """Place single values in rows of six, then graphs in rows of two."""
    placed: list[dict[str, Any]] = []
    top = 0
    for number, width, height in ((True, COLUMNS // 6, 4), (False, COLUMNS // 2, 8)):
        group = [panel for panel in panels if panel.number is number]
        in_row = COLUMNS // width
        for index, panel in enumerate(group):
            place = {"x": index % in_row * width, "y": top + index // in_row * height, "w": width, "h": height}
            placed.append(_build_panel(len(placed) + 1, panel, place))
        top += -(-len(group) // in_row) * height
    return placed


def _build_panel(number: int, panel: Panel, place: Mapping[str, int]) -> dict[str, Any]:
    return {
        "id": number,
        "type": "stat" if panel.number else "timeseries",
        "title": panel.title,
        "datasource": SOURCE,
        "gridPos": dict(place),
        "fieldConfig": {"defaults": {"unit": panel.unit, **({} if panel.number else {"min": 0})}, "overrides": []},
        "targets": [
            {
                "refId": "A",
                "datasource": SOURCE,
                "expr": panel.query,
                "legendFormat": panel.legend or "__auto",
                "instant": panel.number,
                "range": not panel.number,
            }
        ],
    }
