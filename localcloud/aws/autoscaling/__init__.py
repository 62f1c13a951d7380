"""Auto Scaling operations that moto lacks or implements differently from AWS."""

import importlib

_PARTS = ("activities", "capacity", "group_calls", "hook_calls", "refreshes", "scheduled_actions", "tags")
"""Modules of this package.

Importing a module registers its operations; `extend_moto()`, if defined, patches moto's classes.
"""


def extend_moto() -> None:
    """Register this service's operations."""
    for name in _PARTS:
        part = importlib.import_module(f"{__name__}.{name}")
        if hasattr(part, "extend_moto"):
            part.extend_moto()
