"""What AWS reports at plan time, read with boto3 in one place and passed on as plain values."""

from infra.facts.gather import gather
from infra.facts.model import (
    Ami,
    Caller,
    CapacityReservation,
    Existing,
    ExistingPool,
    Facts,
    FactsError,
    FileSystem,
    OwnVpc,
    Subnet,
    Vpc,
    Zone,
)

__all__ = [
    "Ami",
    "Caller",
    "CapacityReservation",
    "Existing",
    "ExistingPool",
    "Facts",
    "FactsError",
    "FileSystem",
    "OwnVpc",
    "Subnet",
    "Vpc",
    "Zone",
    "gather",
]
