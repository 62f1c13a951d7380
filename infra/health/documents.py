"""Checks of JSON documents that users, pods or nodes can write: a document without the expected structure is ignored.

Each check is a predicate of one value. `must_have_fields` accepts unknown keys, which a newer version may have written.
"""

import json
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import Any

Check = Callable[[Any], bool]
DEPTH = 16
MOST_CHARACTERS, MOST_PARTS = 1 << 20, 100_000
"""Limits of a document before it is parsed. A ConfigMap can hold 1 MiB. A record of 2,000 workers has 40,000 parts, and
parsed, an empty list needs 30 times the memory of its text."""
LARGEST = 10**15
LONGEST_SECONDS = 10**10


def load_json(text: Any, most_characters: int = MOST_CHARACTERS) -> Any:
    """Return a JSON document; None if it is damaged, too large, nested deeply, or contains numbers or characters that
    cannot be encoded.

    >>> [load_json(text) for text in ('{"a": [1, null]}', "{", "[" * 99 + "]" * 99, "NaN", r'"\\ud800"', None)]
    [{'a': [1, None]}, None, None, None, None, None]
    """
    if not isinstance(text, str) or len(text) > most_characters or sum(map(text.count, ",[{")) > MOST_PARTS:
        return None
    try:
        document = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return None
    return document if _is_storable(document, DEPTH) else None


def _is_storable(value: Any, depth: int) -> bool:
    if isinstance(value, dict):
        return depth > 0 and all(is_text(key) and _is_storable(inner, depth - 1) for key, inner in value.items())
    if isinstance(value, list):
        return depth > 0 and all(_is_storable(inner, depth - 1) for inner in value)
    if isinstance(value, int | float):
        return abs(value) <= LARGEST
    return value is None or is_text(value)


def is_text(value: Any) -> bool:
    """Return whether the value is text that can be encoded: JSON may contain half of a surrogate pair."""
    return isinstance(value, str) and (value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value))


def is_non_negative_integer(value: Any) -> bool:
    return type(value) is int and 0 <= value <= LARGEST


def is_integer(value: Any) -> bool:
    return type(value) is int and abs(value) <= LARGEST


def is_number(value: Any) -> bool:
    return type(value) in (int, float) and 0 <= value <= LARGEST


def is_duration(value: Any) -> bool:
    """Return whether the value is a number of seconds."""
    return is_number(value) and value <= LONGEST_SECONDS


def is_time(value: Any, years: range = range(2000, 2200)) -> bool:
    """
    >>> is_time("2026-11-23T12:00:00Z"), is_time("2026-11-23T12:00:00"), is_time("0001-01-01T00:00:00+14:00"), is_time(5)
    (True, False, False, False)
    """
    try:
        when = datetime.fromisoformat(value)
        return when.tzinfo is not None and when.astimezone(UTC).year in years
    except (ValueError, TypeError, OverflowError):
        return False


def is_any_time(value: Any) -> bool:
    return is_time(value, range(1, 9999))


def must_be_in(values: Collection[Any]) -> Check:
    return lambda value: isinstance(value, str | int) and value in values


def allow_none(check: Check) -> Check:
    return lambda value: value is None or check(value)


def must_be_list(check: Check) -> Check:
    return lambda value: isinstance(value, list) and all(map(check, value))


def must_be_mapping(check: Check) -> Check:
    return lambda value: isinstance(value, dict) and all(map(check, value.values()))


def must_have_fields(required: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> Check:
    def has_valid_fields(value: Any) -> bool:
        if not isinstance(value, dict) or not required.keys() <= value.keys():
            return False
        return all(check(value[key]) for key, check in {**required, **(optional or {})}.items() if key in value)

    return has_valid_fields
