"""Data model of the monitoring: alerts, parts of the platform, and the features of a cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from infra.naming import KUBE_SYSTEM, MONITORING_NAMESPACE

Severity = Literal["info", "warning", "critical"]
"""info: no action needed. warning: the platform or an operator has to replace a node. critical: jobs cannot
start or restart."""

RUNBOOKS: Final = "docs/runbooks"
"""Folder of the repository with one page per alert."""
TOKEN: Final = "/etc/gpumpi/remote-write/token"
WEBHOOK: Final = "/etc/gpumpi/webhook/url"
"""Paths of the users' Secrets in the pods of Prometheus and Alertmanager."""


@dataclass(frozen=True)
class Alert:
    """One alert, with its runbook."""

    name: str
    expr: str
    summary: str
    """One-line message. Prometheus fills in `{{ $labels.x }}`."""
    meaning: str
    """What happened and its consequences, for the runbook."""
    fix: str
    """What the operator should do, for the runbook."""
    severity: Severity = "warning"
    hold: str = "0m"
    """How long the expression must hold before the alert fires."""

    @property
    def runbook_url(self) -> str:
        return f"{RUNBOOKS}/{self.name}.md"


@dataclass(frozen=True)
class Part:
    """A part of the platform whose failure raises an alert."""

    alert: str
    title: str
    kind: Literal["Deployment", "DaemonSet"]
    namespace: str
    name: str
    effect: str
    """Functions that do not work while the part is down."""
    ours: bool = True
    """Whether `pulumi up` creates the object. Otherwise an EKS add-on creates the object; in a local cloud, the
    object's name may differ.
    """


@dataclass(frozen=True)
class RemoteWrite:
    """Receiver to which Prometheus sends all samples."""

    url: str
    secret: str | None = None
    """The user's Secret with the receiver's bearer token."""


@dataclass(frozen=True)
class Monitored:
    """Features of a cluster."""

    cluster: str
    parts: tuple[Part, ...]
    eks: bool = True
    """Whether EKS's node monitoring agent runs, and the cluster's CA signs the kubelets' certificates."""
    queue: bool = True
    autoscaler: bool = True
    gpus: bool = True
    """Whether a pool has NVIDIA GPUs."""
    hourly_prices: Mapping[str, str] = field(default_factory=dict)
    """Maps each pool to its price in USD per node and hour; pools without a known price are missing."""
    remote_write: RemoteWrite | None = None
    webhook_secret: str | None = None
    """The user's Secret with the URL to which Alertmanager sends alerts."""


@dataclass(frozen=True)
class Target:
    """Pods with metrics."""

    job: str
    namespace: str
    labels: Mapping[str, str] = field(hash=False)
    """Labels that select the pods."""
    port: int


PROMETHEUS: Final = Target("prometheus", MONITORING_NAMESPACE, {"app": "prometheus"}, 9090)
ALERTMANAGER: Final = Target("alertmanager", MONITORING_NAMESPACE, {"app": "alertmanager"}, 9093)
KUBE_STATE_METRICS: Final = Target("kube-state-metrics", MONITORING_NAMESPACE, {"app": "kube-state-metrics"}, 8080)
NODE_EXPORTER: Final = Target("node-exporter", KUBE_SYSTEM, {"app": "node-exporter"}, 9100)
DCGM_EXPORTER: Final = Target("dcgm-exporter", KUBE_SYSTEM, {"app": "dcgm-exporter"}, 9400)
