"""Facts: what AWS reports at plan time. Only this package queries AWS for planning; callers get plain values."""

from infra.facts.gather import gather
from infra.facts.model import (
    AddonVersions,
    Ami,
    Caller,
    CapacityReservation,
    EbsKey,
    EndpointService,
    Existing,
    ExistingPool,
    Facts,
    FactsError,
    FileSystem,
    LustreFileSystem,
    NodeTemplate,
    OwnVpc,
    Subnet,
    Vpc,
    Zone,
)

__all__ = [
    "AddonVersions",
    "Ami",
    "Caller",
    "CapacityReservation",
    "EbsKey",
    "EndpointService",
    "Existing",
    "ExistingPool",
    "Facts",
    "FactsError",
    "FileSystem",
    "LustreFileSystem",
    "NodeTemplate",
    "OwnVpc",
    "Subnet",
    "Vpc",
    "Zone",
    "gather",
]
