"""Instance type properties on which pools depend: GPUs, EFA interfaces, slots. Parses EC2 responses; makes no calls."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Architecture = Literal["x86_64", "arm64"]


@dataclass(frozen=True)
class NetworkCard:
    """One network card of an instance type."""

    index: int
    maximum_interfaces: int
    efa: bool | None
    """True if the card supports an EFA interface; None if `InterfaceTypes` is missing in the response."""


@dataclass(frozen=True)
class InstanceType:
    """Properties of one instance type, from DescribeInstanceTypes."""

    name: str
    architecture: Architecture
    vcpus: int
    memory_mib: int
    gpus: int
    """Number of whole GPUs; 0 for types with a fractional GPU."""
    gpu_manufacturer: str | None
    gpu_name: str | None
    gpu_memory_mib: int
    """Memory per GPU."""
    efa_maximum: int
    """Maximum number of EFA interfaces; 0 if the type does not support EFA."""
    network_cards: tuple[NetworkCard, ...]
    default_card: int
    """Index of the network card with the primary interface."""
    addresses_per_interface: int
    """Maximum number of IPv4 addresses of one interface."""
    line_rate_gbps: float | None
    """`NetworkPerformance` in Gbit/s; None for "Up to ..." types."""
    instance_store_gb: int
    """Total size of the local NVMe disks; 0 if there are none."""
    placement_strategies: frozenset[str]
    usage_classes: frozenset[str]
    is_bare_metal: bool
    runs_linux: bool = True
    """False for the mac types, whose only architectures are `x86_64_mac` and `arm64_mac`."""
    has_neuron: bool = False
    """True for the types with AWS Trainium or Inferentia accelerators."""

    @property
    def slots(self) -> int:
        """Default ranks per node: one per GPU, or one per vCPU if the type has no GPUs."""
        return self.gpus or self.vcpus

    @property
    def has_nvidia_gpus(self) -> bool:
        return self.gpus > 0 and self.gpu_manufacturer == "NVIDIA"

    @classmethod
    def from_ec2(cls, described: Mapping[str, Any]) -> "InstanceType":
        """Convert one element of `InstanceTypes` in the DescribeInstanceTypes response."""
        network = described["NetworkInfo"]
        gpus = described.get("GpuInfo", {}).get("Gpus", [])
        first: Mapping[str, Any] = gpus[0] if gpus else {}
        architectures = described["ProcessorInfo"]["SupportedArchitectures"]
        return cls(
            name=described["InstanceType"],
            architecture="arm64" if "arm64" in architectures else "x86_64",
            vcpus=described["VCpuInfo"]["DefaultVCpus"],
            memory_mib=described["MemoryInfo"]["SizeInMiB"],
            gpus=sum(gpu.get("Count", 0) for gpu in gpus),
            gpu_manufacturer=first.get("Manufacturer"),
            gpu_name=first.get("Name"),
            gpu_memory_mib=first.get("MemoryInfo", {}).get("SizeInMiB", 0),
            efa_maximum=network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0) if network.get("EfaSupported") else 0,
            network_cards=tuple(sorted(map(_convert_network_card, network["NetworkCards"]), key=lambda card: card.index)),
            default_card=network.get("DefaultNetworkCardIndex", 0),
            addresses_per_interface=network["Ipv4AddressesPerInterface"],
            line_rate_gbps=parse_line_rate(network.get("NetworkPerformance", "")),
            instance_store_gb=described.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0),
            placement_strategies=frozenset(described.get("PlacementGroupInfo", {}).get("SupportedStrategies", ())),
            usage_classes=frozenset(described.get("SupportedUsageClasses", ())),
            is_bare_metal=described.get("BareMetal", False),
            runs_linux=not all(name.endswith("_mac") for name in architectures),
            has_neuron="NeuronInfo" in described,
        )


def _convert_network_card(described: Mapping[str, Any]) -> NetworkCard:
    types = described.get("InterfaceTypes")  # botocore before 1.44 drops the field
    return NetworkCard(
        index=described["NetworkCardIndex"],
        maximum_interfaces=described["MaximumNetworkInterfaces"],
        efa="efa-only" in types or "efa" in types if types else None,
    )


def parse_line_rate(performance: str) -> float | None:
    """Convert `4x 100 Gigabit` to 400.0; return None if AWS guarantees no rate (`Up to 25 Gigabit`, `High`).

    >>> parse_line_rate("4x 100 Gigabit"), parse_line_rate("Up to 25 Gigabit")
    (400.0, None)
    """
    match = re.fullmatch(r"(?:(\d+)x )?([\d.]+) Gigabit", performance)
    return float(match[1] or 1) * float(match[2]) if match else None
