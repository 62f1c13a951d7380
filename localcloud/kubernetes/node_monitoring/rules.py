"""The configuration of node-problem-detector, with the condition and the reasons of EKS's node monitoring agent.

https://github.com/kubernetes/node-problem-detector/blob/v1.36.0/pkg/systemlogmonitor/README.md
https://github.com/aws/eks-node-monitoring-agent/blob/51af5494/pkg/reasons/reasons.yaml
"""

from pathlib import Path
from typing import Any, Final

from infra.health import xids
from infra.health.faults import GPU_CONDITION

SOURCE: Final = "eks-node-monitoring-agent"
HIGHEST_XID: Final = 255
DOUBLE_BIT: Final = 48
_HEALTHY: Final = {
    "type": GPU_CONDITION,
    "reason": "NvidiaGPUIsReady",
    "message": "Monitoring for the Nvidia GPU system is active",
}


def build_configuration(log: Path) -> dict[str, Any]:
    """Return the configuration for a GPU node with this kernel log. node-problem-detector ignores log lines from before
    its start."""
    return {
        "plugin": "filelog",
        "pluginConfig": {
            "timestamp": r"^(\S+)",
            "message": "kernel: (.*)",
            "timestampFormat": "2006-01-02T15:04:05.999999Z07:00",
        },
        "logPath": str(log),
        "lookback": "0",
        "bufferSize": 1,
        "source": SOURCE,
        "metricsReporting": False,
        "conditions": [_HEALTHY],
        "rules": [*map(_build_rule, range(1, HIGHEST_XID + 1)), _build_double_bit_rule()],
    }


def _build_rule(xid: int) -> dict[str, str]:
    if xids.look_up_xid(xid).sets_condition:
        return {
            "type": "permanent",
            "condition": GPU_CONDITION,
            "reason": xids.format_reason(xid),
            "pattern": _build_pattern(xid),
        }
    return {"type": "temporary", "reason": xids.format_reason(xid), "pattern": _build_pattern(xid)}


def _build_double_bit_rule() -> dict[str, str]:
    """Return the rule for double-bit errors. DCGM reports such an error twice: as an Xid and through the error counter.
    The later reason replaces the earlier one.
    """
    pattern = _build_pattern(DOUBLE_BIT)
    return {"type": "permanent", "condition": GPU_CONDITION, "reason": "NvidiaDoubleBitError", "pattern": pattern}


def _build_pattern(xid: int) -> str:
    return rf"NVRM: Xid \(PCI:[0-9a-f:.]+\): {xid}, .*"
