"""Division of a VPC into subnets."""

from ipaddress import IPv4Network
from itertools import combinations

import pytest

from infra.plan.subnet_cidrs import ZONE_LETTERS, compute_zone_subnets

VPCS = ["10.0.0.0/16", "172.16.0.0/17", "192.168.0.0/18", "10.1.32.0/19", "10.9.240.0/20"]
ZONES = [f"us-east-1{letter}" for letter in ZONE_LETTERS]


def list_subnets(vpc: str, zones: list[str]) -> list[IPv4Network]:
    return [
        IPv4Network(cidr)
        for zone in zones
        for cidr in (compute_zone_subnets(vpc, zone).private, compute_zone_subnets(vpc, zone).public)
    ]


@pytest.mark.parametrize("vpc", VPCS)
def test_subnets_of_all_zones_lie_in_the_vpc_without_overlap(vpc: str) -> None:
    blocks = list_subnets(vpc, ZONES)
    assert all(subnet.subnet_of(IPv4Network(vpc)) for subnet in blocks)
    assert not [pair for pair in combinations(blocks, 2) if pair[0].overlaps(pair[1])]


@pytest.mark.parametrize("vpc", VPCS)
def test_every_subnet_size_is_valid_for_ec2(vpc: str) -> None:
    assert all(16 <= subnet.prefixlen <= 28 for subnet in list_subnets(vpc, ZONES))


@pytest.mark.parametrize("vpc", VPCS)
def test_private_subnets_are_eight_times_as_large_as_public_subnets(vpc: str) -> None:
    zone = compute_zone_subnets(vpc, "us-east-1a")
    assert IPv4Network(zone.private).num_addresses == 8 * IPv4Network(zone.public).num_addresses


def test_subnets_of_a_zone_do_not_depend_on_other_zones() -> None:
    assert compute_zone_subnets("10.0.0.0/16", "us-east-1c").private == "10.0.32.0/20"
    assert compute_zone_subnets("10.0.0.0/16", "us-east-1c").public == "10.0.132.0/23"


def test_subnet_capacity_excludes_five_addresses_reserved_by_aws() -> None:
    assert compute_zone_subnets("10.0.0.0/16", "us-east-1a").private_capacity == 4096 - 5


@pytest.mark.parametrize("zone", ["us-west-2-lax-1z", "use1-az1"])
def test_invalid_availability_zone_is_refused(zone: str) -> None:
    with pytest.raises(ValueError, match=zone):
        compute_zone_subnets("10.0.0.0/16", zone)
