"""What must be known at plan time, read from AWS with boto3 in one place and handed on as plain values."""

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
