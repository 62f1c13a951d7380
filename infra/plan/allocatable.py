"""CPU and memory of a node that job pods can request. Pure.

The estimates are deliberately low, because a job that requests more than a node has would wait forever.
"""

from dataclasses import dataclass
from typing import Final

from infra.facts.instance_types import InstanceType
from infra.plan.pod_limits import default_pods

USABLE_MEMORY: Final = 0.925
"""Share of an instance's memory that the hypervisor and the kernel do not use. Karpenter assumes the same overhead of
7.5 % (VM_MEMORY_OVERHEAD_PERCENT)."""
EVICTION_MIB: Final = 100
"""Source of this value and the KUBELET_ values below:
https://github.com/awslabs/amazon-eks-ami/blob/main/nodeadm/internal/kubelet/config.go"""
KUBELET_MIB, KUBELET_MIB_PER_POD = 255, 11
KUBELET_CPU_SHARES: Final = (0.06, 0.01, 0.005, 0.005)
"""Shares that the kubelet reserves of the first, second, third and fourth CPU."""
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


def for_jobs(instance: InstanceType, *, huge_pages_mib: int = 0, is_system: bool = False) -> Allocatable:
    memory = instance.memory_mib * USABLE_MEMORY - huge_pages_mib - EVICTION_MIB - AGENTS_MIB
    memory -= KUBELET_MIB + KUBELET_MIB_PER_POD * default_pods(instance)
    cpu = instance.vcpus * 1000 - _kubelet_millis(instance.vcpus) - AGENTS_MILLIS
    if is_system:
        memory, cpu = memory - SYSTEM_PODS_MIB, cpu - SYSTEM_PODS_MILLIS
    return Allocatable(cpu_millis=max(0, int(cpu)), memory_mib=max(0, int(memory)))


def _kubelet_millis(vcpus: int) -> float:
    shares = [*KUBELET_CPU_SHARES[:vcpus], *[KUBELET_CPU_SHARE_OF_OTHERS] * (vcpus - len(KUBELET_CPU_SHARES))]
    return 1000 * sum(shares)
