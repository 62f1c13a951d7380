"""EC2's facts about an instance type -> what a pool needs: GPUs, EFA interfaces, slots. Pure."""

from dataclasses import dataclass
from typing import Literal

InterfaceType = Literal["interface", "efa-only"]


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
    architecture: Literal["x86_64", "arm64"]
    vcpus: int
    memory_mib: int
    gpus: int
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


@dataclass(frozen=True)
class Interface:
    """One network interface of a launch template."""

    network_card: int
    device: int
    type: InterfaceType


def efa_layout(instance_type: InstanceType) -> tuple[Interface, ...]:
    """The interfaces of a node with EFA by AWS's current rule."""
    raise NotImplementedError
