"""Comparison of JSON documents according to the rules that AWS applies."""

import json
from typing import Any


def is_equivalent_json(left_text: object, other: object) -> bool:
    """Return whether two strings contain equivalent JSON. Whitespace and key order are ignored. For IAM policies, list
    order and the brackets around a single element are also ignored, as in the official provider
    (https://github.com/hashicorp/awspolicyequivalence)."""
    if left_text == other:
        return True
    try:
        left, right = _parse_json(left_text), _parse_json(other)
    except ValueError:
        return False
    policies = _is_policy(left) and _is_policy(right)
    return bool(_canonicalize(left) == _canonicalize(right) if policies else left == right)


def _parse_json(text: object) -> Any:
    if not isinstance(text, str):
        raise ValueError(text)
    return json.loads(text)


def _is_policy(document: object) -> bool:
    return isinstance(document, dict) and "Statement" in document


def _canonicalize(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _canonicalize(member) for key, member in value.items()}
    if isinstance(value, list):
        elements = sorted((_canonicalize(element) for element in value), key=lambda element: json.dumps(element, sort_keys=True))
        return elements[0] if len(elements) == 1 else elements
    return str(value).lower() if isinstance(value, bool) else value
