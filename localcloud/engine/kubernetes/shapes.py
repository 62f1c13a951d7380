"""Prune live objects to the fields in the inputs, since the API server sets many additional fields."""

from collections.abc import Mapping
from typing import Any


def prune(live: Any, shape: Any) -> Any:
    """Return `live` with only the members in `shape`, recursively. A value is kept unchanged if its type differs from
    the type in `shape`.
    """
    if isinstance(live, Mapping) and isinstance(shape, Mapping):
        return {name: prune(value, shape[name]) for name, value in live.items() if name in shape}
    if isinstance(live, list) and isinstance(shape, list):
        return [prune(value, element_shape) for value, element_shape in zip(live, shape, strict=False)]
    return live
