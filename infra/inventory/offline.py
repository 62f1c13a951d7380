"""Facts for listing a stack's resources without AWS: everything that the stack file names exists, and every zone
offers every type."""

from collections.abc import Iterator
from string import ascii_lowercase
from typing import Final

from infra.facts.instance_types import InstanceType
from infra.facts.model import Ami, Caller, Facts, FileSystem, LustreFileSystem, Subnet, Vpc, Zone
from infra.settings.stack import Settings
from infra.settings.storage import ExistingEfs, ExistingLustre
from infra.settings.targets import EksTarget

ACCOUNT: Final = "123456789012"
UNKNOWN: Final = "unknown"


def generate_possible_facts(settings: Settings) -> Iterator[Facts]:
    """Yield the facts of an account. If the number of zones depends on the Region, also yield the facts of a Region with
    the fewest zones in which EKS works."""
    yield _build_facts(settings, EksTarget.default_zones)
    if settings.is_eks and not settings.network.is_existing and settings.network.zone_count is None:
        yield _build_facts(settings, EksTarget.minimum_zones)


def _build_facts(settings: Settings, fewest: int) -> Facts:
    names, zones = settings.instance_types, _choose_zones(settings, fewest)
    efs, lustre, vpc = settings.storage.efs, settings.storage.fsx, settings.network.vpc_id
    return Facts(
        region=settings.region,
        partition="aws",
        caller=Caller(ACCOUNT, UNKNOWN, None),
        zones=tuple(Zone(name, name) for name in zones),
        instance_types={name: _build_instance_type(name) for name in names},
        type_names=names,
        offerings=dict.fromkeys(names, frozenset(zones)),
        vpc=Vpc(vpc, (), dns_support=True, dns_hostnames=True) if vpc else None,
        subnets=_build_subnets(settings, zones),
        efs={efs.file_system_id: FileSystem(efs.file_system_id, UNKNOWN, {})} if isinstance(efs, ExistingEfs) else {},
        lustre={lustre.file_system_id: _build_lustre(lustre.file_system_id)} if isinstance(lustre, ExistingLustre) else {},
        ami=Ami(UNKNOWN, "x86_64", "/dev/sda1"),
    )


def _build_lustre(file_system_id: str) -> LustreFileSystem:
    return LustreFileSystem(file_system_id, UNKNOWN, {}, subnet_id="", size_gib=0, dns_name=UNKNOWN, mount_name=UNKNOWN)


def _choose_zones(settings: Settings, fewest: int) -> list[str]:
    """Return the zones that the stack file names, and additional ones if there are too few."""
    lustre = settings.storage.new_lustre
    named = [*settings.network.zone_names, *(pool.zone for pool in settings.pools), lustre.zone if lustre else None]
    zones = list(dict.fromkeys(zone for zone in named if zone is not None))
    more = (f"{settings.region}{letter}" for letter in ascii_lowercase)
    count = max(fewest, settings.network.zone_count or 0, len(settings.network.subnet_ids))
    return zones + [zone for zone in more if zone not in zones][: max(0, count - len(zones))]


def _build_subnets(settings: Settings, zones: list[str]) -> dict[str, Subnet]:
    """Return the subnets of the existing VPC, each in a different zone."""
    network = settings.network
    pairs = zip(network.subnet_ids, zones, strict=False)
    return {subnet: Subnet(subnet, network.vpc_id or "", zone, "", 0, is_public=False) for subnet, zone in pairs}


def _build_instance_type(name: str) -> InstanceType:
    network = {"NetworkCards": [{"NetworkCardIndex": 0, "MaximumNetworkInterfaces": 1}], "Ipv4AddressesPerInterface": 1}
    described = {"InstanceType": name, "ProcessorInfo": {"SupportedArchitectures": ["x86_64"]}, "NetworkInfo": network}
    return InstanceType.from_ec2({**described, "VCpuInfo": {"DefaultVCpus": 1}, "MemoryInfo": {"SizeInMiB": 1}})
