"""One alert per fault of `infra.health.faults`: what EKS's node monitoring agent reports about a node.

The node's condition shows whether the fault persists, but the metric for node conditions lacks the reason. The agent's
counter includes the reason, but a restart of the agent resets it, like the conditions. The agent also counts some
reasons before it sets a condition. An alert therefore needs both the condition and the counter.

https://github.com/aws/eks-node-monitoring-agent/blob/51af5494/pkg/manager/manager.go
"""

from collections.abc import Iterator
from typing import Final

from infra.health import faults, xids
from infra.health.faults import Action, Decision
from infra.monitoring.model import Alert, Severity

HEALTH_CODE: Final = "DCGMHealthCode"
_HEALTH_CODES: Final = rf"{HEALTH_CODE}\\d+"
"""Regular expression in a PromQL string, which needs the second backslash."""

_NAMED: Final = {
    "NvidiaDoubleBitError": "A GPU's memory has an uncorrectable ECC error.",
    "NvidiaNVLinkError": "A link between GPUs of the node failed.",
    "NvidiaFabricError": "The GPUs could not join the NVLink fabric.",
    "NvidiaDeviceCountMismatch": "The driver sees fewer GPUs than the instance type has.",
    "FabricManagerNotRunning": "NVIDIA's fabric manager is not running, so the node's GPUs cannot use NVSwitch.",
    "DCGMDiagnosticFailure": "NVIDIA's diagnostics of a GPU failed.",
    "DCGMError": "The agent could not communicate with DCGM. This does not mean that a GPU is broken, but GPU faults go "
    "unnoticed.",
    HEALTH_CODE: "DCGM's health check of a GPU failed. The code is in the node's condition.",
}
_CONDITIONS: Final = {
    faults.READY: (
        "NodeNotReady",
        "The kubelet has not reported for 50 seconds: the kubelet, the network or the instance has failed.",
    ),
    "NetworkingReady": ("NodeNetworkingNotReady", "An interface, a route or the VPC CNI of the node does not work."),
    "KernelReady": ("NodeKernelNotReady", "The node's kernel has a fault, or can start no more processes."),
    "StorageReady": ("NodeStorageNotReady", "A disk of the node does not answer, or I/O takes too long."),
    "ContainerRuntimeReady": ("NodeContainerRuntimeNotReady", "The container runtime cannot start or end containers."),
}
_FOLLOWS: Final[dict[Action, str]] = {
    "none": "does not take the node out of service",
    "cordon": "needs manual diagnosis; until then, no job should start on the node",
    "reboot": "is repaired by a reboot",
    "replace": "is repaired by replacing the node",
}
_LAST_XID: Final = (
    '{{ range printf "max by (node) (DCGM_FI_DEV_XID_ERRORS{node=%q}) > 0" $labels.node | query }}, '
    "last Xid {{ .Value }}{{ else }}, for another reason{{ end }}"
)
"""The GPU exporter reports the Xid even where the agent's counter cannot be read, as in the local cloud."""
CATCH_ALL: Final = "NodeGpuNotReady"
OF_APPLICATIONS: Final = "NvidiaXIDOfApplication"


def list_fault_alerts() -> Iterator[Alert]:
    for reason in (*faults.list_known_reasons(), HEALTH_CODE):
        yield _build_reason_alert(reason)
    yield _build_catch_all_alert()
    yield _build_application_alert()
    for condition in (faults.READY, *(name for name in faults.AGENT_CONDITIONS if name != faults.GPU_CONDITION)):
        yield _build_condition_alert(condition)


def _build_reason_alert(reason: str) -> Alert:
    decision = faults.decide_repair(faults.GPU_CONDITION, reason if reason != HEALTH_CODE else f"{HEALTH_CODE}1")
    number = faults.parse_xid(reason)
    text = f"The driver reported Xid {number}: {xids.look_up_xid(number).text}." if number is not None else _NAMED[reason]
    match = f'reason=~"{_HEALTH_CODES}"' if reason == HEALTH_CODE else f'reason="{reason}"'
    counted = f"max by (node) (problem_condition_count{{{match}}}) > 0"
    lasting = decision.owner != "nobody"
    return Alert(
        name=reason,
        # An event sets no condition. The fault counts as over when the event has not recurred for a while.
        expr=f"({counted}) and on (node) ({_build_false_condition_expr(faults.GPU_CONDITION)})"
        if lasting
        else _build_recent_faults_expr(match),
        summary=f"Node {{{{ $labels.node }}}}: {reason}",
        meaning=f"{text} The fault {_FOLLOWS[decision.action]}.",
        fix=_choose_fix(decision),
        severity=_choose_severity(decision),
    )


def _build_false_condition_expr(condition: str) -> str:
    return f'max by (node) (kube_node_status_condition{{condition="{condition}",status="false"}}) == 1'


def _build_recent_faults_expr(match: str) -> str:
    """Return a PromQL expression for faults that the agent counted in the last 10 minutes. The first report creates the
    series, which Prometheus does not count as an increase. Therefore the expression compares the counter with its value 10
    minutes ago, if there is one.
    """
    now = f"sum by (node) (problem_condition_count{{{match}}})"
    before = f"sum by (node) (problem_condition_count{{{match}}} offset 10m)"
    return f"({now} > {before}) or ({now} unless {before})"


def _choose_severity(decision: Decision) -> Severity:
    return "warning" if decision.takes_node_out else "info"


def _choose_fix(decision: Decision) -> str:
    if not decision.takes_node_out:
        return "Read the log of the agent on this node: `kubectl logs -n kube-system -l k8s-app=dcgm-server`."
    if decision.action == "cordon":
        return (
            "Cordon the node with `kubectl cordon NODE`, let its jobs end, run NVIDIA's diagnostics, and replace it if they fail."
        )
    return (
        "Usually nothing. If `scripts/cluster health NODE` shows that no component repairs the node, drain it and "
        f"{decision.action} it."
    )


def _build_catch_all_alert() -> Alert:
    reasons = "|".join((*faults.list_known_reasons(), _HEALTH_CODES))
    counted = f'max by (node) (problem_condition_count{{reason=~"{reasons}"}}) > 0'
    return Alert(
        name=CATCH_ALL,
        expr=f"({_build_false_condition_expr(faults.GPU_CONDITION)}) unless on (node) ({counted})",
        summary=f"Node {{{{ $labels.node }}}}: a GPU is not ready{_LAST_XID}",
        meaning="The condition AcceleratedHardwareReady is False, for a reason that this program does not know, or the agent's "
        "metrics cannot be read.",
        fix="If the summary names an Xid, look it up in the alerts above; otherwise read the reason with "
        "`scripts/cluster health NODE`. Cordon the node until you know whether its GPUs work.",
    )


def _build_application_alert() -> Alert:
    return Alert(
        name=OF_APPLICATIONS,
        expr=_build_recent_faults_expr(r'reason=~"NvidiaXID\\d+Warning"'),
        summary="Node {{ $labels.node }}: an Xid caused by the application",
        meaning="The driver reported an Xid that harms only the application, such as 13, 31, 43, 45 or 94. The GPU is fine.",
        fix="Read the log of the job on this node. If the same node reports the Xid for several jobs, run NVIDIA's diagnostics.",
        severity="info",
    )


def _build_condition_alert(condition: str) -> Alert:
    name, text = _CONDITIONS[condition]
    is_kubelets = condition == faults.READY
    minutes = int(faults.find_repair_wait(condition).total_seconds() // 60)
    return Alert(
        name=name,
        # If the kubelet stops, the Ready condition becomes Unknown, not False.
        expr='max by (node) (kube_node_status_condition{condition="Ready",status="true"}) == 0'
        if is_kubelets
        else _build_false_condition_expr(condition),
        summary=f"Node {{{{ $labels.node }}}}: {condition} is not True",
        meaning=f"{text} EKS replaces the node after {minutes} minutes; other clusters do not.",
        fix="Nothing on EKS. On other clusters, drain the node and replace it: see `scripts/cluster health NODE`.",
        hold="2m" if is_kubelets else "0m",
    )
