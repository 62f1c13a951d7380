"""One alert per part of the platform, and alerts about the monitoring itself."""

from collections.abc import Iterator
from typing import Final

from infra.monitoring.model import KUBE_STATE_METRICS, Alert, Monitored, Part
from infra.naming import (
    EFS,
    JOBSET_NAMESPACE,
    KUBE_SYSTEM,
    LUSTRE,
    MPI_OPERATOR_NAMESPACE,
    PLATFORM_NAMESPACE,
    QUEUE_NAMESPACE,
    TRAINER_NAMESPACE,
)

JOB_CONTROLLER: Final = Part(
    "JobControllerDown",
    "job controller",
    "Deployment",
    PLATFORM_NAMESPACE,
    "gpumpi-job-controller",
    "Running jobs continue, but jobs are not restarted as a whole, `setup` never ends, workers of ended `standalone` jobs keep "
    "their GPUs, and the records of jobs are out of date.",
)
QUEUE: Final = Part(
    "KueueDown",
    "Kueue",
    "Deployment",
    QUEUE_NAMESPACE,
    "kueue-controller-manager",
    "Running jobs continue, but no job starts, and `scripts/cluster submit` fails because Kueue's webhook does not answer.",
)
MPI_OPERATOR: Final = Part(
    "MpiOperatorDown",
    "MPI operator",
    "Deployment",
    MPI_OPERATOR_NAMESPACE,
    "mpi-operator",
    "Running MPIJobs continue, but no new ones start, and lost workers are not recreated.",
)
JOBSET: Final = Part(
    "JobSetDown",
    "JobSet",
    "Deployment",
    JOBSET_NAMESPACE,
    "jobset-controller-manager",
    "Running JobSets and TrainJobs continue, but no new ones start, and none restart.",
)
TRAINER: Final = Part(
    "TrainerDown",
    "Kubeflow Trainer",
    "Deployment",
    TRAINER_NAMESPACE,
    "kubeflow-trainer-controller-manager",
    "Running TrainJobs continue, but no new ones start, and creating one fails because the webhook does not answer.",
)
AUTOSCALER: Final = Part(
    "ClusterAutoscalerDown",
    "cluster autoscaler",
    "Deployment",
    KUBE_SYSTEM,
    "cluster-autoscaler",
    "The autoscaler adds no nodes for waiting jobs, and idle nodes keep costing money.",
)
NVIDIA_DEVICE_PLUGIN: Final = Part(
    "NvidiaDevicePluginDown",
    "NVIDIA's device plugin",
    "DaemonSet",
    KUBE_SYSTEM,
    "nvidia-device-plugin-daemonset",
    "Nodes without the plugin offer no GPUs: running jobs continue, but no new ones start there.",
)
EFA_DEVICE_PLUGIN: Final = Part(
    "EfaDevicePluginDown",
    "AWS's EFA device plugin",
    "DaemonSet",
    KUBE_SYSTEM,
    "aws-efa-k8s-device-plugin-daemonset",
    "Nodes without the plugin offer no EFA: running jobs continue, but no new ones start there.",
)
CSI_DRIVERS: Final = {
    EFS: Part(
        "EfsCsiDriverDown",
        "EFS's CSI driver",
        "DaemonSet",
        KUBE_SYSTEM,
        "efs-csi-node",
        "Pods on nodes without the driver wait for the shared volume. Mounted volumes depend on the driver's mount "
        "helper, which may stop together with the driver.",
        ours=False,
    ),
    LUSTRE: Part(
        "FsxCsiDriverDown",
        "FSx's CSI driver",
        "DaemonSet",
        KUBE_SYSTEM,
        "fsx-csi-node",
        "Pods on nodes without the driver wait for the Lustre volume. Mounted volumes stay mounted.",
        ours=False,
    ),
}
NODE_MONITORING: Final = Part(
    "NodeMonitoringAgentDown",
    "EKS's node monitoring agent (in the local cloud: node-problem-detector)",
    "DaemonSet",
    KUBE_SYSTEM,
    "eks-node-monitoring-agent",
    "On nodes without the agent, faults go unnoticed, and node conditions are out of date.",
    ours=False,
)
PARTS: Final = (
    *(JOB_CONTROLLER, QUEUE, MPI_OPERATOR, JOBSET, TRAINER, AUTOSCALER),
    *(NVIDIA_DEVICE_PLUGIN, EFA_DEVICE_PLUGIN, *CSI_DRIVERS.values(), NODE_MONITORING),
)
"""Every part that a cluster can have."""

_REMOTE_WRITE: Final = "RemoteWriteFailing"


def list_part_alerts(parts: tuple[Part, ...]) -> Iterator[Alert]:
    yield from map(_build_part_alert, parts)


def list_monitoring_alerts(cluster: Monitored) -> Iterator[Alert]:
    """Yield the alerts about the monitoring itself."""
    states = KUBE_STATE_METRICS.job
    yield Alert(
        name="KubeStateMetricsDown",
        expr=f'absent(up{{job="{states}"}} == 1)',
        summary="kube-state-metrics cannot be read",
        meaning="Prometheus has no metrics of nodes and pods: alerts about faults and parts of the platform cannot fire.",
        fix="Find out why the pod of kube-state-metrics does not run: `kubectl describe pod -n gpumpi-monitoring -l "
        "app=kube-state-metrics`.",
        severity="critical",
        hold="5m",
    )
    yield Alert(
        name="TargetDown",
        expr=f'up{{job!="{states}"}} == 0',
        summary="{{ $labels.job }} on node {{ $labels.node }} cannot be read",
        meaning="Prometheus cannot scrape a pod or kubelet that is running. Dashboards have gaps, and alerts that use "
        "its metrics cannot fire.",
        fix="If there is an alert for the node itself, start there. Otherwise read the log of the pod, and look up the reason in "
        "Prometheus: `kubectl port-forward -n gpumpi-monitoring deploy/prometheus 9090`, then /targets.",
        hold="10m",
    )
    if cluster.remote_write is not None:
        yield Alert(
            name=_REMOTE_WRITE,
            # Both Prometheus v2.42 and v3 export this metric.
            expr="rate(prometheus_remote_storage_samples_failed_total[5m]) > 0",
            summary="Samples do not reach {{ $labels.url }}",
            meaning=(
                "The receiver of `platform.remoteWrite` rejects samples. The samples are missing at the receiver, but "
                "Prometheus in the cluster "
                "still has them."
            ),
            fix="Read the reason in the log: `kubectl logs -n gpumpi-monitoring deploy/prometheus`. Usually the token has "
            "expired.",
            hold="10m",
        )


def _build_part_alert(part: Part) -> Alert:
    read = f"`kubectl describe {part.kind.lower()} -n {part.namespace} {part.name}`"
    if part.kind == "Deployment":
        return Alert(
            name=part.alert,
            expr=_build_none_available_expr(part),
            summary=f"{part.title}: no pod is ready",
            meaning=f"No {part.title} pod is ready. {part.effect}",
            fix=f"Find the reason with {read} and the log of its pod. Usually no system node has room, or an image is missing.",
            severity="critical",
            hold="5m",
        )
    fix = f"If there is an alert for a node, start there. Otherwise find the reason with {read} and the log of its pod."
    return Alert(
        name=part.alert,
        expr=_build_some_unavailable_expr(part),
        summary=f"{part.title}: not ready on {{{{ $value }}}} nodes",
        meaning=f"A node lacks a ready pod of {part.title}. {part.effect}",
        fix=fix,
        # A new GPU node takes several minutes to pull the images of its agents.
        hold="15m",
    )


def _build_none_available_expr(part: Part) -> str:
    name = f'namespace="{part.namespace}",deployment="{part.name}"'
    return f"kube_deployment_status_replicas_available{{{name}}} == 0{_build_absent_expr(f'kube_deployment_created{{{name}}}')}"


def _build_some_unavailable_expr(part: Part) -> str:
    name = f'namespace="{part.namespace}",daemonset="{part.name}"'
    absent = _build_absent_expr(f"kube_daemonset_created{{{name}}}") if part.ours else ""
    return f"kube_daemonset_status_number_unavailable{{{name}}} > 0{absent}"


def _build_absent_expr(series: str) -> str:
    """Return a PromQL condition that holds if the object was deleted and therefore has no metrics. The condition holds
    only while kube-state-metrics runs."""
    return f' or (absent({series}) and on () (up{{job="{KUBE_STATE_METRICS.job}"}} == 1))'
