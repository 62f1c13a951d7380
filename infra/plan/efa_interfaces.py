"""Network interfaces of a node with EFA, computed from what EC2 reports about the instance type."""

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
