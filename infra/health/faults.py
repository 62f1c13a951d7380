"""Maps each node fault that EKS's node monitoring agent reports to one owner and one action.

The owner is the only component that acts: two components repairing the same node would conflict. Where the job
controller is the owner, EKS's node auto repair must not act, so the node group needs an override with the action
`NoAction` (`repair_overrides`).

https://docs.aws.amazon.com/eks/latest/userguide/node-health-nma.html
https://docs.aws.amazon.com/eks/latest/userguide/node-repair.html
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Literal

from infra.health import xids

Owner = Literal["controller", "eks", "nobody"]
Action = Literal["none", "cordon", "reboot", "replace"]

GPU_CONDITION: Final = "AcceleratedHardwareReady"
READY: Final = "Ready"
SILENT: Final = "KubeletSilent"
"""Reason that only this project uses: Kubernetes still reports the node as Ready although the kubelet is silent."""
AGENT_CONDITIONS: Final = (GPU_CONDITION, "NetworkingReady", "KernelReady", "StorageReady", "ContainerRuntimeReady")
"""Conditions that the agent writes. True means healthy. The agent resets a condition to True only when the agent
restarts."""
WAITS: Final = {GPU_CONDITION: timedelta(minutes=10)}
OTHER_WAIT: Final = timedelta(minutes=30)
"""How long EKS waits before it repairs a node."""
LEAST_WAIT_MINUTES: Final = 5
"""An override needs a wait time, even with NoAction. This value is from AWS's example."""

_XID: Final = re.compile(r"NvidiaXID(\d+)(?:Error|Warning)")
_EKS_REPLACES: Final = frozenset({74, 79, 119, 120, 121, 140})
_EKS_REBOOTS: Final = frozenset({13, 31, 48, 63, 64, 94, 95})
"""Xids that the EKS user guide lists for each of the two repair actions. The agent reports 13, 31, 94 and 121 only as
events, so EKS never acts on them (https://github.com/aws/eks-node-monitoring-agent/issues/272)."""


@dataclass(frozen=True)
class Decision:
    """Owner of a fault, and the action that the owner takes."""

    owner: Owner
    action: Action
    eks: Action
    """Action that EKS's node auto repair takes if the node group has no override."""

    def for_existing_cluster(self) -> "Decision":
        """Return the decision for an existing cluster: the controller takes nodes out of service, and administrators
        repair them."""
        return Decision(
            self.owner if self.owner == "nobody" else "controller", "cordon" if self.takes_node_out else "none", "none"
        )

    @property
    def takes_node_out(self) -> bool:
        return self.action != "none"


NOTHING: Final = Decision("nobody", "none", "none")
_GPU_REASONS: Final = {
    "NvidiaDoubleBitError": Decision("controller", "replace", "replace"),
    "NvidiaNVLinkError": Decision("controller", "replace", "replace"),
    "NvidiaFabricError": Decision("controller", "replace", "none"),
    "NvidiaDeviceCountMismatch": Decision("controller", "replace", "none"),
    "FabricManagerNotRunning": Decision("controller", "reboot", "none"),
    "DCGMDiagnosticFailure": Decision("controller", "cordon", "none"),
    # The agent could not communicate with DCGM. This does not mean that a GPU is broken.
    "DCGMError": NOTHING,
}
_HEALTH_CODE: Final = re.compile(r"DCGMHealthCode\d+")
_BY_EKS: Final = Decision("eks", "replace", "replace")


def parse_xid(reason: str) -> int | None:
    """Return the Xid in a reason that the agent reports.

    >>> parse_xid("NvidiaXID79Error"), parse_xid("NvidiaXID31Warning"), parse_xid("KernelBug")
    (79, 31, None)
    """
    match = _XID.fullmatch(reason)
    return int(match[1]) if match else None


def decide_repair(condition: str, reason: str) -> Decision:
    """Return the decision for a condition that is False, or for an event with this reason.

    >>> decide_repair("AcceleratedHardwareReady", "NvidiaXID79Error")
    Decision(owner='controller', action='replace', eks='replace')
    >>> decide_repair("AcceleratedHardwareReady", "NvidiaXID31Warning").costs_node
    False
    """
    if (condition, reason) == (READY, SILENT):
        # Jobs cannot wait until Kubernetes reports the node as not Ready. EKS still repairs the node.
        return Decision("controller", "cordon", "replace")
    if condition != GPU_CONDITION:
        # Without a working kubelet, network, kernel or disk, a node cannot repair itself, and EKS replaces it.
        return _BY_EKS if condition in (READY, *AGENT_CONDITIONS) else NOTHING
    if (number := parse_xid(reason)) is not None:
        return _decide_for_xid(number)
    if _HEALTH_CODE.fullmatch(reason):
        return Decision("controller", "cordon", "none")
    # Later releases of the agent may add reasons. The condition is False, so no job should start on the node.
    return _GPU_REASONS.get(reason, Decision("controller", "cordon", "none"))


def _decide_for_xid(number: int) -> Decision:
    xid = xids.look_up_xid(number)
    if not xid.sets_condition:
        return NOTHING
    eks: Action = "replace" if number in _EKS_REPLACES else "reboot" if number in _EKS_REBOOTS else "none"
    if eks != "none":
        return Decision("controller", eks, eks)
    # A GPU cannot be reset while other pods use the node's GPUs; a reboot resets them all.
    return Decision("controller", "replace" if xid.advice == "replace the node" else "reboot", "none")


def list_known_reasons() -> Iterator[str]:
    """Yield all known reasons of AcceleratedHardwareReady except DCGM's health codes."""
    yield from (xids.format_reason(number) for number, xid in xids.XIDS.items() if xid.sets_condition)
    yield from _GPU_REASONS


def find_repair_wait(condition: str) -> timedelta:
    """Return how long EKS waits before it repairs a node with this condition."""
    return WAITS.get(condition, OTHER_WAIT)


RepairOverride = Mapping[str, Any]
"""A fault for which a node group's default repair is overridden, with the keys of Pulumi's provider."""


def list_repair_overrides() -> tuple[RepairOverride, ...]:
    """Return the node group's overrides, which keep EKS from acting on faults that the controller owns."""
    action = {"min_repair_wait_time_mins": LEAST_WAIT_MINUTES, "repair_action": "NoAction"}
    reasons = [reason for reason in list_known_reasons() if decide_repair(GPU_CONDITION, reason).owner == "controller"]
    return tuple({"node_monitoring_condition": GPU_CONDITION, "node_unhealthy_reason": reason, **action} for reason in reasons)
