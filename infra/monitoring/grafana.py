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


def files() -> Mapping[str, str]:
    """Return the JSON of each dashboard, keyed by file name."""
    return {f"{one.name}.json": json.dumps(dashboard(one), indent=1, sort_keys=True) + "\n" for one in DASHBOARDS}


def dashboard(wanted: Dashboard) -> dict[str, Any]:
    return {
        "uid": f"gpumpi-{wanted.name}",
        "title": f"gpumpi: {wanted.title}",
        "tags": ["gpumpi"],
        "schemaVersion": SCHEMA,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_data_source(), *map(_variable, wanted.variables)]},
        "panels": _placed(wanted.panels),
    }


def _data_source() -> dict[str, Any]:
    return {"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}


def _variable(wanted: Variable) -> dict[str, Any]:
    query = f"label_values({wanted.metric}, {wanted.label})"
    return {
        "name": wanted.name,
        "type": "query",
        "datasource": SOURCE,
        "definition": query,
        "query": {"query": query, "refId": wanted.name},
        "refresh": 2,  # 2: refresh when the time range changes
        "includeAll": True,
        "multi": True,
        "allValue": ".+",
        "current": {"text": "All", "value": "$__all"},
    }


def _placed(panels: tuple[Panel, ...]) -> list[dict[str, Any]]:
    """Place single values in rows of six, then graphs in rows of two."""
    placed: list[dict[str, Any]] = []
    top = 0
    for number, width, height in ((True, COLUMNS // 6, 4), (False, COLUMNS // 2, 8)):
        group = [one for one in panels if one.number is number]
        in_row = COLUMNS // width
        for index, one in enumerate(group):
            place = {"x": index % in_row * width, "y": top + index // in_row * height, "w": width, "h": height}
            placed.append(_panel(len(placed) + 1, one, place))
        top += -(-len(group) // in_row) * height
    return placed


def _panel(number: int, wanted: Panel, place: Mapping[str, int]) -> dict[str, Any]:
    return {
        "id": number,
        "type": "stat" if wanted.number else "timeseries",
        "title": wanted.title,
        "datasource": SOURCE,
        "gridPos": dict(place),
        "fieldConfig": {"defaults": {"unit": wanted.unit, **({} if wanted.number else {"min": 0})}, "overrides": []},
        "targets": [
            {
                "refId": "A",
                "datasource": SOURCE,
                "expr": wanted.query,
                "legendFormat": wanted.legend or "__auto",
                "instant": wanted.number,
                "range": not wanted.number,
            }
        ],
    }
