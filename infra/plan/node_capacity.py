"""What a node of an EKS cluster offers to pods: the maximum number of pods, and the CPU and memory that job pods can
request. Performs no I/O.

The VPC CNI gives each pod an address from an interface on the default network card. Interfaces on other cards are for
EFA. The estimates of CPU and memory are deliberately low, because a job that requests more than a node has would wait
forever.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from infra.facts.instance_types import InstanceType
from infra.plan.efa_interfaces import Interface

WITHOUT_ADDRESS: Final = 2
"""Pods on the host network that EKS includes in the count: vpc-cni and kube-proxy."""
USUAL: Final = 110
"""Default limit of the kubelet. In practice, nodes never run more than 110 pods, and adding a limit to the user data
would replace the nodes of existing pools. So nodes with enough addresses for 110 pods get no limit.
"""

USABLE_MEMORY: Final = 0.925
"""Share of an instance's memory that the hypervisor and the kernel do not use. Karpenter assumes the same overhead of
7.5 % (VM_MEMORY_OVERHEAD_PERCENT)."""
EVICTION_MIB: Final = 100
"""Source of this value and the KUBELET_ values below:
https://github.com/awslabs/amazon-eks-ami/blob/main/nodeadm/internal/kubelet/config.go"""
KUBELET_MIB, KUBELET_MIB_PER_POD = 255, 11
KUBELET_CPU_SHARES: Final = (0.06, 0.01, 0.005, 0.005)
"""Shares of the first, second, third and fourth CPU that the kubelet reserves."""
KUBELET_CPU_SHARE_OF_OTHERS: Final = 0.0025

AGENTS_MIB: Final = 1024
AGENTS_MILLIS: Final = 500
"""Reserved for the agent pods on every node: network, proxy, pod identity, storage driver, monitoring, device
plugins."""

SYSTEM_PODS_MIB: Final = 512
SYSTEM_PODS_MILLIS: Final = 300
"""Reserved for DNS, operators and similar pods on one node of the CPU pool, in addition to the agents."""


@dataclass(frozen=True)
class Allocatable:
    """Total CPU and memory that job pods can request on one node."""

    cpu_millis: int
    memory_mib: int


def compute_allocatable(instance: InstanceType, *, huge_pages_mib: int = 0, is_system: bool = False) -> Allocatable:
    memory = instance.memory_mib * USABLE_MEMORY - huge_pages_mib - EVICTION_MIB - AGENTS_MIB
    memory -= KUBELET_MIB + KUBELET_MIB_PER_POD * compute_default_max_pods(instance)
    cpu = instance.vcpus * 1000 - _compute_kubelet_millicores(instance.vcpus) - AGENTS_MILLIS
    if is_system:
        memory, cpu = memory - SYSTEM_PODS_MIB, cpu - SYSTEM_PODS_MILLIS
    return Allocatable(cpu_millis=max(0, int(cpu)), memory_mib=max(0, int(memory)))


def _compute_kubelet_millicores(vcpus: int) -> float:
    shares = [*KUBELET_CPU_SHARES[:vcpus], *[KUBELET_CPU_SHARE_OF_OTHERS] * (vcpus - len(KUBELET_CPU_SHARES))]
    return 1000 * sum(shares)


def compute_default_max_pods(instance: InstanceType) -> int:
    """Return the number of pods for which EKS's AMI reserves memory, such as 100 for p5.48xlarge and 737 for
    p4d.24xlarge:
    https://github.com/awslabs/amazon-eks-ami/blob/main/nodeadm/internal/kubelet/eni-max-pods.txt"""
    return _count_pods(_count_interfaces(instance), instance)


def compute_max_pods(instance: InstanceType, interfaces: Sequence[Interface]) -> int | None:
    """Return the kubelet's `maxPods` for a node with these interfaces; None if EKS's own value is correct.

    EKS assumes that the VPC CNI can use every interface of the default card. An `efa-only` interface on that card has
    no addresses for pods: p5.48xlarge and p5e.48xlarge allow two interfaces per card, so pods can use the addresses of
    only one interface. With EKS's value of 100, a node would accept pods that can never get an address.
    """
    own = sum(interface.network_card == instance.default_card and interface.type == "efa-only" for interface in interfaces)
    fitting = _count_pods(_count_interfaces(instance) - own, instance)
    return fitting if own and fitting < USUAL else None


def _count_interfaces(instance: InstanceType) -> int:
    cards = {card.index: card.maximum_interfaces for card in instance.network_cards}
    return cards[instance.default_card]


def _count_pods(interfaces: int, instance: InstanceType) -> int:
    """Return the number of pods that fit: the first address of each interface belongs to the interface itself."""
    return interfaces * (instance.addresses_per_interface - 1) + WITHOUT_ADDRESS
