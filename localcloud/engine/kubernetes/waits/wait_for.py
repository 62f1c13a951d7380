"""Annotation `pulumi.com/waitFor`: readiness conditions in the syntax of `kubectl wait --for`.

https://www.pulumi.com/registry/packages/kubernetes/how-to-guides/await-with-annotations/
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from localcloud.engine.kubernetes.waits.scene import READY, Condition, Scene, Verdict, get_conditions

STEP = re.compile(r"\.([A-Za-z0-9_\-]+)|\[(\d+)\]|\[\?\(@\.(\w+)\s*==\s*[\"']([^\"']*)[\"']\)\]")
ABSENT = object()


class BadCondition(Exception):
    """The annotation `pulumi.com/waitFor` contains an invalid or unsupported condition."""


def parse_condition(text: str) -> Condition:
    """Parse the annotation: a single expression or a JSON list of expressions. Raises BadCondition."""
    try:
        parsed = json.loads(text)
    except ValueError:
        parsed = None
    expressions = parsed if isinstance(parsed, list) else [text]
    if not expressions:
        raise BadCondition("at least one condition must be specified")
    for expression in expressions:
        _is_fulfilled(expression, {})

    def check_expressions(scene: Scene) -> Verdict:
        missing = [expression for expression in expressions if not _is_fulfilled(expression, scene.live)]
        return Verdict(False, f"Waiting for {', '.join(missing)}") if missing else READY

    return Condition(check_expressions)


def _is_fulfilled(expression: str, live: Mapping[str, Any]) -> bool:
    kind, _, rest = str(expression).partition("=")
    if kind == "condition":
        name, _, expected = rest.partition("=")
        condition = {type.lower(): condition for type, condition in get_conditions(live).items()}.get(name.lower(), {})
        return str(condition.get("status", "")).lower() == (expected or "true").lower()
    if kind == "jsonpath":
        path, _, expected = rest.partition("}")
        value = _get_value_at(live, path.removeprefix("{"))
        expected = expected.removeprefix("=")
        return value is not ABSENT and (not expected or _format_value(value) == expected.strip("'\""))
    raise BadCondition(f'expected a "jsonpath=" or "condition=" prefix, got "{expression}"')


def _get_value_at(live: Any, path: str) -> Any:
    place = 0
    while place < len(path):
        step = STEP.match(path, place)
        if step is None:
            raise BadCondition(f'the local Kubernetes provider does not support the path "{path}" in pulumi.com/waitFor')
        place = step.end()
        name, index, key, expected = step.groups()
        if name is not None:
            live = live.get(name, ABSENT) if isinstance(live, Mapping) else ABSENT
        elif index is not None:
            live = live[int(index)] if isinstance(live, list) and int(index) < len(live) else ABSENT
        else:
            elements = live if isinstance(live, list) else []
            live = next((item for item in elements if isinstance(item, Mapping) and str(item.get(key)) == expected), ABSENT)
    return live


def _format_value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
