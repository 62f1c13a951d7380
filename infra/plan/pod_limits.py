"""Number of pods that a node of an EKS cluster can run. Pure.

The VPC CNI gives each pod an address from an interface on the default network card. Interfaces on other cards are for
EFA.
"""

from collections.abc import Sequence
from typing import Final

from infra.facts.instance_types import InstanceType
from infra.plan.efa_interfaces import Interface

WITHOUT_ADDRESS: Final = 2
"""Pods on the host network that EKS counts: vpc-cni and kube-proxy."""
USUAL: Final = 110
"""Default limit of the kubelet. In practice, nodes never run more than 110 pods, and adding a limit to the user data
would replace the nodes of existing pools. So nodes with enough addresses for 110 pods get no limit.
"""


def default_pods(instance: InstanceType) -> int:
    """Return the number of pods for which EKS's AMI reserves memory, such as 100 for p5.48xlarge and 737 for
    p4d.24xlarge:
    https://github.com/awslabs/amazon-eks-ami/blob/main/nodeadm/internal/kubelet/eni-max-pods.txt"""
    return _pods(_interfaces(instance), instance)


def max_pods(instance: InstanceType, interfaces: Sequence[Interface]) -> int | None:
    """Return the kubelet's `maxPods` for a node with these interfaces; None if EKS's own value is correct.

    EKS assumes that the VPC CNI can use every interface of the default card. An `efa-only` interface on that card has
    no addresses for pods: p5.48xlarge and p5e.48xlarge allow two interfaces per card, so pods can use the addresses of
    only one interface. With EKS's value of 100, a node would accept pods that can never get an address.
    """
    own = sum(interface.network_card == instance.default_card and interface.type == "efa-only" for interface in interfaces)
    fitting = _pods(_interfaces(instance) - own, instance)
    return fitting if own and fitting < USUAL else None


def _interfaces(instance: InstanceType) -> int:
    cards = {card.index: card.maximum_interfaces for card in instance.network_cards}
    return cards[instance.default_card]


def _pods(interfaces: int, instance: InstanceType) -> int:
    """Return the number of pods that fit: the first address of each interface belongs to the interface itself."""
    return interfaces * (instance.addresses_per_interface - 1) + WITHOUT_ADDRESS
