"""Comparison of JSON documents according to the rules that AWS applies."""

import json
from typing import Any


def equivalent(left_text: object, other: object) -> bool:
    """Return whether two strings contain equivalent JSON. Whitespace and key order are ignored. For IAM policies, list
    order and the brackets around a single element are also ignored, as in the official provider
    (https://github.com/hashicorp/awspolicyequivalence)."""
    if left_text == other:
        return True
    try:
        left, right = _document(left_text), _document(other)
    except ValueError:
        return False
    policies = _is_policy(left) and _is_policy(right)
    return bool(_canonical(left) == _canonical(right) if policies else left == right)


def _document(text: object) -> Any:
    if not isinstance(text, str):
        raise ValueError(text)
    return json.loads(text)


def _is_policy(document: object) -> bool:
    return isinstance(document, dict) and "Statement" in document


def _canonical(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _canonical(member) for key, member in value.items()}
    if isinstance(value, list):
        elements = sorted((_canonical(element) for element in value), key=lambda element: json.dumps(element, sort_keys=True))
        return elements[0] if len(elements) == 1 else elements
    return str(value).lower() if isinstance(value, bool) else value
