"""Filters and pagination of EC2's Describe operations."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, TypeVar

from localcloud.aws.errors import AwsError

Item = TypeVar("Item")
Values = str | int | bool | None | Iterable[str]


def filter_items(
    items: Iterable[Item],
    filters: Sequence[Mapping[str, Any]] | None,
    value: Mapping[str, Callable[[Item], Values]],
    tags: Callable[[Item], Mapping[str, str]],
) -> list[Item]:
    """Return the items that match all filters.

    `value` maps each filter name to a function that returns the item's value to compare with the filter. Raise AWS's
    error for an unknown filter.
    """
    matching = list(items)
    for item_filter in filters or ():
        name, accepted = item_filter.get("Name", "null"), item_filter.get("Values", [])
        reader = _find_value_reader(name, value, tags)
        matching = [item for item in matching if _matches(reader(item), accepted)]
    return matching


def _find_value_reader(
    name: str, value: Mapping[str, Callable[[Item], Values]], tags: Callable[[Item], Mapping[str, str]]
) -> Callable[[Item], Values]:
    if name in value:
        return value[name]
    if name.startswith("tag:"):
        return lambda item: tags(item).get(name[4:])
    if name == "tag-key":
        return lambda item: list(tags(item))
    if name == "tag-value":
        return lambda item: list(tags(item).values())
    raise AwsError("InvalidParameterValue", f"The filter '{name}' is invalid")


def _matches(actual: Values, patterns: Sequence[str]) -> bool:
    if actual is None:
        return False
    if isinstance(actual, bool):
        return str(actual).lower() in patterns
    values = [str(actual)] if isinstance(actual, str | int) else list(actual)
    return any(text == pattern or fnmatchcase(text, pattern) for text in values for pattern in patterns)


def select_page(items: Sequence[Item], params: Mapping[str, Any]) -> tuple[list[Item], dict[str, str]]:
    """Return the page selected by `MaxResults` and `NextToken`, and the `NextToken` for the response."""
    start = int(params.get("NextToken") or 0)
    end = start + int(params.get("MaxResults") or len(items) or 1)
    return list(items[start:end]), {"NextToken": str(end)} if end < len(items) else {}
