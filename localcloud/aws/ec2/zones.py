"""Lookup of Availability Zones by name or id."""

from functools import cache
from typing import Any

from moto.ec2.models.availability_zones_and_regions import RegionsAndZonesBackend, Zone

from localcloud.aws.call import Call
from localcloud.aws.ec2.refusals import build_invalid_value_error
from localcloud.aws.patching import operation

_OTHER_PARTITIONS = ("cn-", "us-gov-", "us-iso", "eu-isoe-", "eusc-")


@operation("ec2", "DescribeRegions")
def describe_regions(call: Call) -> dict[str, Any]:
    """Return the Regions of AWS's main partition; moto returns the Regions of all partitions."""
    answer = call.moto()
    if not call.region.startswith(_OTHER_PARTITIONS):
        answer["Regions"] = [region for region in answer["Regions"] if not region["RegionName"].startswith(_OTHER_PARTITIONS)]
    return answer


@cache
def list_zones(region: str) -> tuple[Zone, ...]:
    return tuple(zone for zone in RegionsAndZonesBackend.zones.get(region, ()) if zone.zone_type == "availability-zone")


def find_zone(backend: Any, name_or_id: str) -> Zone:
    """Return the region's zone with that name (us-west-2a) or id (usw2-az1)."""
    zones = list_zones(backend.region_name)
    for zone in zones:
        if name_or_id in (zone.name, zone.zone_id):
            return zone
    names = ", ".join(zone.name for zone in zones)
    raise build_invalid_value_error(name_or_id, "availabilityZone", f"The availability zones of the region are: {names}.")
