"""EC2 where moto falls short of AWS."""

import importlib

_PARTS = (
    "addresses",
    "capacity_reservation_calls",
    "image_calls",
    "instance_calls",
    "images",
    "instance_types",
    "interface_calls",
    "interfaces",
    "launch_template_calls",
    "launch_templates",
    "placement_groups",
    "tagging",
)
"""Modules of this package. Importing one registers its operations; its `install()`, if it has one, amends moto's classes."""


def install() -> None:
    """Register this service's operations."""
    for name in _PARTS:
        part = importlib.import_module(f"{__name__}.{name}")
        if hasattr(part, "install"):
            part.install()
