"""EC2 operations that moto lacks or implements differently from AWS."""

import importlib
from typing import Any

_PARTS = (
    "addresses",
    "capacity_block_calls",
    "capacity_block_extensions",
    "capacity_block_life",
    "capacity_reservation_calls",
    "dhcp_options",
    "dry_run",
    "ebs_defaults",
    "flow_logs",
    "gateways",
    "image_calls",
    "image_making",
    "instance_attributes",
    "instance_calls",
    "images",
    "instance_types",
    "interface_calls",
    "interfaces",
    "launch_template_calls",
    "launch_templates",
    "nat_gateways",
    "notices",
    "placement_group_calls",
    "power",
    "refusals",
    "route_tables",
    "security_group_rules",
    "security_groups",
    "spot_market",
    "subnets",
    "tagging",
    "vpc_endpoint_calls",
    "vpcs",
    "zones",
)
"""Modules of this package.

Importing a module registers its operations; `extend_moto()`, if defined, patches moto's classes.
"""


def extend_moto() -> None:
    """Register this service's operations."""
    for name in _PARTS:
        part = importlib.import_module(f"{__name__}.{name}")
        if hasattr(part, "extend_moto"):
            part.extend_moto()


def seed_network(*args: Any, **options: Any) -> None:
    """Import `localcloud.aws.ec2.networks` on demand, and call its `seed_network`."""
    from localcloud.aws.ec2 import networks

    networks.seed_network(*args, **options)
