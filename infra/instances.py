"""EC2's facts about an instance type -> what a pool needs: GPUs, EFA interfaces, slots, the quota that limits it. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

InterfaceType = Literal["interface", "efa-only"]
Architecture = Literal["x86_64", "arm64"]


@dataclass(frozen=True)
class NetworkCard:
    """One network card of an instance type."""

    index: int
    maximum_interfaces: int
    efa: bool | None
    """Whether the card takes an EFA interface; None where the SDK's model does not tell."""


@dataclass(frozen=True)
class InstanceType:
    """What EC2 says of one type (DescribeInstanceTypes), as plain values."""

    name: str
    architecture: Architecture
    vcpus: int
    memory_mib: int
    gpus: int
    """Whole GPUs; a type with a part of one has 0."""
    gpu_manufacturer: str | None
    gpu_name: str | None
    gpu_memory_mib: int
    """Memory of one GPU."""
    efa_maximum: int
    """Most EFA interfaces; 0 without EFA."""
    network_cards: tuple[NetworkCard, ...]
    line_rate_gbps: float | None
    """NetworkPerformance as a number; None for "Up to ..." types."""
    instance_store_gb: int
    """NVMe on the instance; 0 without."""
    placement_strategies: frozenset[str]
    usage_classes: frozenset[str]

    @property
    def slots(self) -> int:
        """Ranks that one node takes: one a GPU, else one a vCPU."""
        return self.gpus or self.vcpus

    @property
    def has_nvidia_gpus(self) -> bool:
        return self.gpus > 0 and self.gpu_manufacturer == "NVIDIA"

    @classmethod
    def from_ec2(cls, described: Mapping[str, Any]) -> "InstanceType":
        """One element of DescribeInstanceTypes' `InstanceTypes`."""
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
            network_cards=tuple(sorted(map(_network_card, network["NetworkCards"]), key=lambda card: card.index)),
            line_rate_gbps=line_rate(network.get("NetworkPerformance", "")),
            instance_store_gb=described.get("InstanceStorageInfo", {}).get("TotalSizeInGB", 0),
            placement_strategies=frozenset(described.get("PlacementGroupInfo", {}).get("SupportedStrategies", ())),
            usage_classes=frozenset(described.get("SupportedUsageClasses", ())),
        )


def _network_card(described: Mapping[str, Any]) -> NetworkCard:
    types = described.get("InterfaceTypes")  # only newer SDKs pass it on
    return NetworkCard(
        index=described["NetworkCardIndex"],
        maximum_interfaces=described["MaximumNetworkInterfaces"],
        efa="efa-only" in types or "efa" in types if types else None,
    )


def line_rate(performance: str) -> float | None:
    """`4x 100 Gigabit` as 400; None where AWS promises no rate (`Up to 25 Gigabit`, `High`).

    >>> line_rate("4x 100 Gigabit"), line_rate("Up to 25 Gigabit")
    (400.0, None)
    """
    match = re.fullmatch(r"(?:(\d+)x )?([\d.]+) Gigabit", performance)
    return float(match[1] or 1) * float(match[2]) if match else None


# --- EFA ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Interface:
    """One network interface of a launch template."""

    network_card: int
    device: int
    type: InterfaceType


def efa_layout(instance_type: InstanceType) -> tuple[Interface, ...]:
    """The interfaces of a node with EFA: the primary is a plain interface, since `efa-only` may not be the primary; a card 0
    with EFA carries its EFA interface as device 1, every further card as device 0.

    Capped at what AWS allows (i7ie and i8ge of 48xlarge: one, on two cards). hpc6id.32xlarge gets one of its two, since the
    primary takes the only place of card 0. https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html
    """
    with_efa = [card for card in instance_type.network_cards if _takes_efa(card, instance_type)]
    interfaces = [Interface(card.index, 1 if card.index == 0 else 0, "efa-only") for card in with_efa]
    return (Interface(0, 0, "interface"), *interfaces[: instance_type.efa_maximum])


def _takes_efa(card: NetworkCard, instance_type: InstanceType) -> bool:
    if card.efa is not None:
        carries = card.efa
    else:  # with fewer EFA interfaces than cards it is card 0 that has none: p6-b300 has 17 cards and 16
        carries = card.index != 0 or instance_type.efa_maximum >= len(instance_type.network_cards)
    return carries and (card.index != 0 or card.maximum_interfaces > 1)


# --- quotas ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Quota:
    """A service quota of EC2, counted in vCPUs."""

    code: str
    name: str


STANDARD: Final = Quota("L-1216C47A", "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances")
STANDARD_SPOT: Final = Quota("L-34B43A08", "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests")

# https://docs.aws.amazon.com/ec2/latest/instancetypes/ec2-instance-quotas.html
# Letters that a type's name begins with -> the quota. Families that no pool of ours can have are left out.
_ON_DEMAND: Final = {
    "g": Quota("L-DB2E81BA", "Running On-Demand G and VT instances"),
    "p": Quota("L-417A185B", "Running On-Demand P instances"),
    "x": Quota("L-7295265B", "Running On-Demand X instances"),
    "hpc": Quota("L-F7808C92", "Running On-Demand HPC instances"),
}
# Spot P types are counted by generation; the table does not say which quota the sixth one belongs to.
_SPOT: Final = {
    "g": Quota("L-3819A6DF", "All G and VT Spot Instance Requests"),
    "p2": Quota("L-7212CCBC", "All P4, P3 and P2 Spot Instance Requests"),
    "p3": Quota("L-7212CCBC", "All P4, P3 and P2 Spot Instance Requests"),
    "p4": Quota("L-7212CCBC", "All P4, P3 and P2 Spot Instance Requests"),
    "p5": Quota("L-C4BD4855", "All P5 Spot Instance Requests"),
    "x": Quota("L-E3A00192", "All X Spot Instance Requests"),
}
_LETTERS: Final = {"gr": "g", "vt": "g", "im": "i", "is": "i"}
"""Types whose letters are not their family's."""


def quota(type_name: str, *, spot: bool) -> Quota | None:
    """The quota that limits a type on demand or as spot; None where AWS's table does not name one.

    Reserved capacity needs none beside: a reservation counted when it was made, a Capacity Block has a quota of its own for
    its purchase.
    """
    match = re.match(r"([a-z]+)(\d*)", type_name)
    if match is None:
        return None
    letters = _LETTERS.get(match[1], match[1])
    if letters in tuple("acdhimrtz"):
        return STANDARD_SPOT if spot else STANDARD
    if spot:
        return _SPOT.get(letters) or _SPOT.get(letters + match[2])
    return _ON_DEMAND.get(letters)
