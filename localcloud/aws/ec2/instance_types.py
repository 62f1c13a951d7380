"""Instance types and their offerings by zone, from moto's copies of EC2's responses.

https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstanceTypes.html
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS, INSTANCE_TYPES, InstanceType
from moto.ec2.utils import generic_filter

from localcloud.aws.call import Call
from localcloud.aws.ec2.filters import select_page
from localcloud.aws.ec2.refusals import stop_dry_run
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import operation


@dataclass(frozen=True)
class Card:
    """Network card of an instance type."""

    interfaces: int
    types: frozenset[str]


@dataclass(frozen=True)
class TypeFacts:
    """Properties of an instance type that are needed to launch instances."""

    name: str
    architectures: frozenset[str]
    vcpus: int
    cores: int
    threads_per_core: int
    efa_maximum: int
    maximum_interfaces: int
    cards: Mapping[int, Card]
    placement_strategies: frozenset[str]
    usage_classes: frozenset[str]
    hypervisor: str
    gpus: int


@cache
def find_type_facts(name: str) -> TypeFacts | None:
    """Return the properties of an instance type, or None if EC2 has no such type."""
    data = INSTANCE_TYPES.get(name)
    if data is None:
        return None
    network, cpu = data["NetworkInfo"], data["VCpuInfo"]
    cards = {
        card["NetworkCardIndex"]: Card(card["MaximumNetworkInterfaces"], frozenset(card.get("InterfaceTypes", ("interface",))))
        for card in network.get("NetworkCards", ())
    }
    return TypeFacts(
        name=name,
        architectures=frozenset(data["ProcessorInfo"]["SupportedArchitectures"]),
        vcpus=cpu["DefaultVCpus"],
        cores=cpu.get("DefaultCores", cpu["DefaultVCpus"]),
        threads_per_core=cpu.get("DefaultThreadsPerCore", 1),
        efa_maximum=network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0) if network.get("EfaSupported") else 0,
        maximum_interfaces=network["MaximumNetworkInterfaces"],
        cards=cards,
        placement_strategies=frozenset(data.get("PlacementGroupInfo", {}).get("SupportedStrategies", ())),
        usage_classes=frozenset(data.get("SupportedUsageClasses", ())),
        hypervisor=data.get("Hypervisor", "nitro"),
        gpus=sum(gpu.get("Count", 0) for gpu in data.get("GpuInfo", {}).get("Gpus", ())),
    )


@cache
def find_offered_zones(region: str) -> Mapping[str, tuple[str, ...]]:
    """Return a mapping from instance types to the sorted zones of the region that offer them."""
    zones: dict[str, list[str]] = {}
    for offering in INSTANCE_TYPE_OFFERINGS["availability-zone"].get(region, ()):
        zones.setdefault(offering["InstanceType"], []).append(offering["Location"])
    return {name: tuple(sorted(places)) for name, places in zones.items()}


def is_offered_in(region: str, name: str) -> bool:
    """Return whether EC2 lists the type in that region. EC2 lists only the types that the region offers."""
    offered = find_offered_zones(region)
    return name in INSTANCE_TYPES and (not offered or name in offered)


@cache
def _list_types(region: str) -> Mapping[str, InstanceType]:
    return {name: InstanceType(name) for name in sorted(INSTANCE_TYPES) if is_offered_in(region, name)}


@operation("ec2", "DescribeInstanceTypes")
def describe_instance_types(call: Call) -> dict[str, Any]:
    types_by_name, names = _list_types(call.region), call.params.get("InstanceTypes", [])
    unknown = [name for name in names if name not in types_by_name]
    if unknown:
        raise AwsError("InvalidInstanceType", f"The following supplied instance types do not exist: [{', '.join(unknown)}]")
    stop_dry_run(call)
    types = [types_by_name[name] for name in names] if names else list(types_by_name.values())
    filters = {item["Name"]: item.get("Values", []) for item in call.params.get("Filters", ())}
    types, token = select_page(generic_filter(filters, types), call.params)
    return {"InstanceTypes": types, **token}


@cache
def _list_offerings(location_type: str, region: str) -> tuple[dict[str, Any], ...]:
    return tuple(INSTANCE_TYPE_OFFERINGS[location_type].get(region, ()))


@operation("ec2", "DescribeInstanceTypeOfferings")
def describe_instance_type_offerings(call: Call) -> dict[str, Any]:
    location_type = call.params.get("LocationType", "region")
    if location_type not in INSTANCE_TYPE_OFFERINGS:
        raise AwsError("InvalidParameterValue", f"Invalid value '{location_type}' for LocationType.")
    offerings = list(_list_offerings(location_type, call.region))
    for item_filter in call.params.get("Filters", ()):
        member = {"instance-type": "InstanceType", "location": "Location"}.get(item_filter["Name"])
        if member is None:
            raise AwsError("InvalidParameterValue", f"The filter '{item_filter['Name']}' is invalid")
        exact = {value for value in item_filter["Values"] if not set(value) & set("*?[")}
        patterns = [value for value in item_filter["Values"] if value not in exact]
        offerings = [
            offering
            for offering in offerings
            if offering[member] in exact or any(fnmatchcase(offering[member], pattern) for pattern in patterns)
        ]
    stop_dry_run(call)
    offerings, token = select_page(offerings, call.params)
    return {"InstanceTypeOfferings": offerings, **token}
