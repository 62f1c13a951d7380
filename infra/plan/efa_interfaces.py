"""Network interfaces of a node with EFA, computed from what EC2 reports about the instance type."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from infra.facts.instance_types import InstanceType, NetworkCard

InterfaceType = Literal["interface", "efa-only"]


@dataclass(frozen=True)
class Interface:
    """One network interface of a launch template."""

    network_card: int
    device: int
    type: InterfaceType


def plan_efa_interfaces(instance_type: InstanceType) -> tuple[Interface, ...]:
    """Return the interfaces of a node with EFA.

    The primary interface is an ordinary network interface, because `efa-only` interfaces cannot be primary. Card 0 has
    its EFA interface as device 1, every other card as device 0.

    The number of EFA interfaces is capped at AWS's limit (i7ie.48xlarge and i8ge.48xlarge have two cards, but a limit
    of one EFA interface). hpc6id.32xlarge gets one of its two EFA interfaces, because the primary interface uses the
    only slot of card 0. https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html"""
    with_efa = [card for card in instance_type.network_cards if _supports_efa(card, instance_type)]
    interfaces = [Interface(card.index, 1 if card.index == 0 else 0, "efa-only") for card in with_efa]
    return (Interface(0, 0, "interface"), *interfaces[: instance_type.efa_maximum])


def has_known_efa_layout(instance_type: InstanceType) -> bool:
    """Return whether it is known which network cards support EFA: EC2 reports it, or all cards support EFA.

    False for p6-b300.48xlarge, which has 16 EFA interfaces on 17 cards, if EC2 does not report `InterfaceTypes`.
    """
    return instance_type.efa_maximum >= len(instance_type.network_cards) or all(
        card.efa is not None for card in instance_type.network_cards
    )


def count_efa_devices(interfaces: Sequence[Interface]) -> int:
    """Return the number of EFA devices that pods or ranks on a node can use."""
    return sum(interface.type == "efa-only" for interface in interfaces)


def _supports_efa(card: NetworkCard, instance_type: InstanceType) -> bool:
    supported = has_known_efa_layout(instance_type) if card.efa is None else card.efa
    return supported and (card.index != 0 or card.maximum_interfaces > 1)
