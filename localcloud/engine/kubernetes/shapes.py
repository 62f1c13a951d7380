"""Live objects cut down to what the inputs say, since a server fills in and changes much more."""

from collections.abc import Mapping
from typing import Any


def pruned(live: Any, shape: Any) -> Any:
    """`live` with those members only that `shape` has, at all depths; where they are of different types, all of it."""
    if isinstance(live, Mapping) and isinstance(shape, Mapping):
        return {name: pruned(value, shape[name]) for name, value in live.items() if name in shape}
    if isinstance(live, list) and isinstance(shape, list):
        return [pruned(value, wanted) for value, wanted in zip(live, shape, strict=False)]
    return live
