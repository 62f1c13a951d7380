"""The table of AWS resource types that stacks create."""

from collections.abc import Mapping
from typing import Final

from infra.inventory import compute, identity, network, storage
from infra.inventory.entry import Entry

TABLE: Final[Mapping[str, Entry]] = {**network.ENTRIES, **storage.ENTRIES, **identity.ENTRIES, **compute.ENTRIES}
"""Resource type -> entry. `tests/program/test_every_stack.py` fails if a stack registers a type without an entry."""
