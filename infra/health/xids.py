"""NVIDIA's Xids: the fault numbers that the GPU driver writes to the kernel log.

https://docs.nvidia.com/deploy/xid-errors/
https://github.com/aws/eks-node-monitoring-agent/blob/51af5494/monitors/nvidia/dcgm/dcgm_policies.go
"""

from dataclasses import dataclass
from typing import Final, Literal

Advice = Literal["restart the job", "reset the GPU", "reboot the node", "replace the node", "none"]


@dataclass(frozen=True)
class Xid:
    """One Xid."""

    text: str
    """What happened, according to NVIDIA's catalog."""
    advice: Advice
    """Immediate action that NVIDIA's catalog recommends, adapted to a cloud, where users cannot check cables."""
    sets_condition: bool
    """Whether EKS's agent sets the node condition AcceleratedHardwareReady to False. Otherwise the agent only writes an
    event."""


def _build_serious_xid(text: str, advice: Advice = "reset the GPU") -> Xid:
    return Xid(text, advice, sets_condition=True)


XIDS: Final = {
    13: Xid("Graphics engine exception", "restart the job", sets_condition=False),
    31: Xid("GPU memory page fault", "restart the job", sets_condition=False),
    43: Xid("GPU stopped processing: reset channel verification error", "none", sets_condition=False),
    45: Xid("Preemptive cleanup, due to previous errors", "none", sets_condition=False),
    46: _build_serious_xid("GPU stopped processing"),
    48: _build_serious_xid("Double-bit ECC error"),
    54: _build_serious_xid("Auxiliary power is not connected to the GPU board", "replace the node"),
    62: _build_serious_xid("Internal micro-controller halt"),
    63: _build_serious_xid("Row remapping event", "none"),
    64: _build_serious_xid("Row remapping failure"),
    74: _build_serious_xid("NVLink error"),
    79: _build_serious_xid("GPU has fallen off the bus", "reboot the node"),
    94: Xid("Contained memory error", "restart the job", sets_condition=False),
    95: _build_serious_xid("Uncontained memory error"),
    109: _build_serious_xid("Context switch timeout"),
    110: _build_serious_xid("Security fault"),
    119: _build_serious_xid("GSP RPC timeout"),
    120: _build_serious_xid("GSP error"),
    121: Xid("C2C link error", "none", sets_condition=False),
    136: _build_serious_xid("Link training failed"),
    140: _build_serious_xid("Unrecovered ECC error"),
    142: _build_serious_xid("NVENC3 error", "replace the node"),
    143: _build_serious_xid("GPU initialization error"),
    151: _build_serious_xid("Key rotation error", "replace the node"),
    154: Xid("GPU recovery action changed", "none", sets_condition=False),
    155: _build_serious_xid("NVLink error detected by software"),
    156: _build_serious_xid("Resource retirement event"),
    158: _build_serious_xid("GPU fatal timeout"),
}
APPLICATION: Final = frozenset({13, 31, 43, 45, 94})
"""Xids that the application causes, or that harm only the application: the GPU stays usable."""
UNKNOWN: Final = Xid("Stands for Xids that are not in the table", "none", sets_condition=False)


def look_up_xid(number: int) -> Xid:
    return XIDS.get(number, UNKNOWN)


def format_reason(number: int) -> str:
    """Return the reason that EKS's agent gives for an Xid.

    >>> format_reason(79), format_reason(31)
    ('NvidiaXID79Error', 'NvidiaXID31Warning')
    """
    return f"NvidiaXID{number}{'Error' if look_up_xid(number).sets_condition else 'Warning'}"
