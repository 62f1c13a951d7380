"""Auto Scaling operations where moto falls short of AWS."""

import importlib

_PARTS = ("activities", "capacity", "group_calls", "hook_calls", "refreshes", "tags")
"""Modules of this package. Importing one registers its operations; its `install()`, if any, patches moto's classes."""


def install() -> None:
    """Register this service's operations."""
    for name in _PARTS:
        part = importlib.import_module(f"{__name__}.{name}")
        if hasattr(part, "install"):
            part.install()
