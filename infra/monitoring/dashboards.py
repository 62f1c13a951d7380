"""The dashboards: cluster, pool, job, GPU health, queue, cost.

Prefixes of metric names, by source: kube-state-metrics (kube_), node-exporter (node_), kubelet (container_), NVIDIA's
DCGM exporter (DCGM_FI_), Kueue (kueue_), cluster autoscaler (cluster_autoscaler_), and the rules of
`infra.monitoring.rules` (gpumpi_).
"""

from dataclasses import dataclass
from typing import Final, Literal

from infra.monitoring.rules import NODE_POOL, PRICE
from infra.naming import JOB_LABEL

Unit = Literal["short", "percentunit", "bytes", "decmbytes", "Bps", "celsius", "watt", "s", "currencyUSD"]
"""Grafana's names for units."""

JOB: Final = f"label_{JOB_LABEL.replace('.', '_').replace('/', '_')}"
"""Metric label in which kube-state-metrics exports the job label of pods."""
GPU: Final = 'resource="nvidia_com_gpu"'
HOURS_PER_MONTH: Final = 730


@dataclass(frozen=True)
class Panel:
    """One graph or single value."""

    title: str
    query: str
    legend: str = ""
    """Legend of each series, such as `{{node}}`."""
    unit: Unit = "short"
    number: bool = False
    """Whether the panel shows the current value instead of a graph."""


@dataclass(frozen=True)
class Variable:
    """A drop-down menu at the top of a dashboard."""

    name: str
    label: str
    """Label of `metric`. The values of the label are the choices in the menu."""
    metric: str


@dataclass(frozen=True)
class Dashboard:
    name: str
    title: str
    panels: tuple[Panel, ...]
    variables: tuple[Variable, ...] = ()


_NOT_IDLE: Final = 'kube_pod_status_phase{phase=~"Pending|Running"} == 1'
GPUS_IN_USE: Final = (
    f"sum by (namespace, node) (kube_pod_container_resource_requests{{{GPU}}} * on (namespace, pod) group_left () "
    f"(max by (namespace, pod) ({_NOT_IDLE})))"
)
"""GPUs requested by pods that are assigned to a node and have not ended."""
_GPUS_PER_NODE: Final = f"max by (node) (kube_node_status_allocatable{{{GPU}}})"


_CHOSEN: Final = f'{NODE_POOL}{{pool=~"$pool"}}'


def _build_pool_query(per_node: str, pools: str = NODE_POOL, *, function: str = "sum") -> str:
    return f"{function} by (pool) (({per_node}) * on (node) group_left (pool) {pools})"


def _build_job_query(rate: str) -> str:
    """Return a PromQL expression that sums `rate` per pod of the selected job."""
    pods = f'max by (namespace, pod) (kube_pod_labels{{namespace=~"$namespace",{JOB}=~"$job"}})'
    return f"sum by (pod) (({rate}) * on (namespace, pod) group_left () {pods})"


def _build_container_query(metric: str) -> str:
    return f'sum by (namespace, pod) (rate({metric}{{namespace=~"$namespace"}}[5m]))'


_CPU_IN_USE: Final = '1 - avg by (node) (rate(node_cpu_seconds_total{mode="idle"}[5m]))'
_MEMORY_IN_USE: Final = "1 - max by (node) (node_memory_MemAvailable_bytes) / max by (node) (node_memory_MemTotal_bytes)"

CLUSTER: Final = Dashboard(
    "cluster",
    "Cluster",
    (
        Panel("Ready nodes", 'sum(kube_node_status_condition{condition="Ready",status="true"})', number=True),
        Panel(
            "Nodes that are not ready",
            'count(kube_node_status_condition{condition="Ready",status="true"} == 0) or vector(0)',
            number=True,
        ),
        Panel("Cordoned nodes", "sum(kube_node_spec_unschedulable)", number=True),
        Panel("Firing alerts", 'count(ALERTS{alertstate="firing"}) or vector(0)', number=True),
        Panel("GPUs: offered", f"sum(kube_node_status_allocatable{{{GPU}}}) or vector(0)", number=True),
        Panel("GPUs: in use", f"sum({GPUS_IN_USE}) or vector(0)", number=True),
        Panel("Alerts", 'count by (alertname, severity) (ALERTS{alertstate="firing"})', "{{alertname}}"),
        Panel("Pods by phase", "sum by (phase) (kube_pod_status_phase)", "{{phase}}"),
        Panel("CPU in use", _CPU_IN_USE, "{{node}}", "percentunit"),
        Panel("Memory in use", _MEMORY_IN_USE, "{{node}}", "percentunit"),
        Panel("Load per CPU", 'max by (node) (node_load5) / count by (node) (node_cpu_seconds_total{mode="idle"})', "{{node}}"),
        Panel("Free space on the root disk", 'min by (node) (node_filesystem_avail_bytes{mountpoint="/"})', "{{node}}", "bytes"),
        Panel("Pods without room", "cluster_autoscaler_unschedulable_pods_count", "waiting"),
        Panel(
            "Failed launches per hour", "sum by (reason) (increase(cluster_autoscaler_failed_scale_ups_total[1h]))", "{{reason}}"
        ),
    ),
)
POOL: Final = Dashboard(
    "pool",
    "Pools",
    (
        Panel("Nodes", f"count by (pool) ({_CHOSEN})", "{{pool}}"),
        Panel(
            "Ready nodes",
            _build_pool_query('max by (node) (kube_node_status_condition{condition="Ready",status="true"})', _CHOSEN),
            "{{pool}}",
        ),
        Panel("GPUs: offered", _build_pool_query(_GPUS_PER_NODE, _CHOSEN), "{{pool}}"),
        Panel("GPUs: in use", _build_pool_query(f"sum by (node) ({GPUS_IN_USE})", _CHOSEN), "{{pool}}"),
        Panel("CPU in use", _build_pool_query(_CPU_IN_USE, _CHOSEN, function="avg"), "{{pool}}", "percentunit"),
        Panel(
            "Memory in use",
            _build_pool_query(_MEMORY_IN_USE, _CHOSEN, function="avg"),
            "{{pool}}",
            "percentunit",
        ),
        Panel(
            "Requested CPUs",
            _build_pool_query('sum by (node) (kube_pod_container_resource_requests{resource="cpu"})', _CHOSEN),
            "{{pool}}",
        ),
    ),
    (Variable("pool", "pool", NODE_POOL),),
)
JOBS: Final = Dashboard(
    "job",
    "Jobs",
    (
        Panel("Running pods", _build_job_query('max by (namespace, pod) (kube_pod_status_phase{phase="Running"})'), "{{pod}}"),
        Panel(
            "Restarts of containers",
            _build_job_query("sum by (namespace, pod) (kube_pod_container_status_restarts_total)"),
            "{{pod}}",
        ),
        Panel("CPUs in use", _build_job_query(_build_container_query("container_cpu_usage_seconds_total")), "{{pod}}"),
        Panel(
            "Memory in use",
            _build_job_query(
                'sum by (namespace, pod) (container_memory_working_set_bytes{namespace=~"$namespace",container!=""})'
            ),
            "{{pod}}",
            "bytes",
        ),
        # EFA bypasses the kernel, so these metrics do not include EFA traffic.
        Panel(
            "Received (without EFA)",
            _build_job_query(_build_container_query("container_network_receive_bytes_total")),
            "{{pod}}",
            "Bps",
        ),
        Panel(
            "Sent (without EFA)",
            _build_job_query(_build_container_query("container_network_transmit_bytes_total")),
            "{{pod}}",
            "Bps",
        ),
        Panel(
            "GPU utilization", _build_job_query("avg by (namespace, pod) (DCGM_FI_DEV_GPU_UTIL) / 100"), "{{pod}}", "percentunit"
        ),
        Panel("GPU memory in use", _build_job_query("sum by (namespace, pod) (DCGM_FI_DEV_FB_USED)"), "{{pod}}", "decmbytes"),
        Panel("GPU power", _build_job_query("sum by (namespace, pod) (DCGM_FI_DEV_POWER_USAGE)"), "{{pod}}", "watt"),
    ),
    (
        Variable("namespace", "namespace", f'kube_pod_labels{{{JOB}!=""}}'),
        Variable("job", JOB, f'kube_pod_labels{{{JOB}!="",namespace=~"$namespace"}}'),
    ),
)
GPUS: Final = Dashboard(
    "gpu-health",
    "GPU health",
    (
        Panel(
            "Nodes whose GPUs are not ready",
            'count(kube_node_status_condition{condition="AcceleratedHardwareReady",status="false"} == 1) or vector(0)',
            number=True,
        ),
        Panel("GPUs that reported an Xid", "count(DCGM_FI_DEV_XID_ERRORS > 0) or vector(0)", number=True),
        Panel("Faults counted by the agent", "sum by (node, reason) (problem_condition_count)", "{{node}} {{reason}}"),
        Panel("Last Xid", "max by (node, gpu) (DCGM_FI_DEV_XID_ERRORS)", "{{node}} GPU {{gpu}}"),
        Panel("Temperature", "max by (node, gpu) (DCGM_FI_DEV_GPU_TEMP)", "{{node}} GPU {{gpu}}", "celsius"),
        Panel("Power", "max by (node, gpu) (DCGM_FI_DEV_POWER_USAGE)", "{{node}} GPU {{gpu}}", "watt"),
        Panel("Utilization", "max by (node, gpu) (DCGM_FI_DEV_GPU_UTIL) / 100", "{{node}} GPU {{gpu}}", "percentunit"),
        Panel("SM clock (MHz)", "max by (node, gpu) (DCGM_FI_DEV_SM_CLOCK)", "{{node}} GPU {{gpu}}"),
        Panel("Memory in use", "max by (node, gpu) (DCGM_FI_DEV_FB_USED)", "{{node}} GPU {{gpu}}", "decmbytes"),
        Panel(
            "Remapped rows, uncorrectable",
            "max by (node, gpu) (DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS)",
            "{{node}} GPU {{gpu}}",
        ),
        Panel(
            "PCIe replays per second", "max by (node, gpu) (rate(DCGM_FI_DEV_PCIE_REPLAY_COUNTER[5m]))", "{{node}} GPU {{gpu}}"
        ),
    ),
)
QUEUE: Final = Dashboard(
    "queue",
    "Queue",
    (
        Panel("Waiting jobs", "sum by (cluster_queue, status) (kueue_pending_workloads)", "{{cluster_queue}} {{status}}"),
        Panel("Admitted jobs", "sum by (cluster_queue) (kueue_admitted_active_workloads)", "{{cluster_queue}}"),
        Panel(
            "Wait for admission, 90th percentile",
            "histogram_quantile(0.9, sum by (cluster_queue, le) (rate(kueue_admission_wait_time_seconds_bucket[1h])))",
            "{{cluster_queue}}",
            "s",
        ),
        Panel(
            "Jobs sent back to the queue per hour",
            "sum by (cluster_queue, reason) (increase(kueue_evicted_workloads_total[1h]))",
            "{{cluster_queue}} {{reason}}",
        ),
        Panel(
            "Share of the quota in use",
            "sum by (flavor, resource) (kueue_cluster_queue_resource_usage) / "
            "(sum by (flavor, resource) (kueue_cluster_queue_nominal_quota) > 0)",
            "{{flavor}} {{resource}}",
            "percentunit",
        ),
    ),
)
_DOLLARS: Final = f"count by (pool) ({NODE_POOL}) * on (pool) group_left () (max by (pool) ({PRICE}))"
_PER_GPU: Final = (
    f"max by (pool) ({PRICE}) / on (pool) (max by (pool) ({_GPUS_PER_NODE} * on (node) group_left (pool) {NODE_POOL}) > 0)"
)
COST: Final = Dashboard(
    "cost",
    "Cost of nodes, at on-demand prices",
    (
        Panel("Per hour", f"sum({_DOLLARS})", unit="currencyUSD", number=True),
        Panel("Per month at this size", f"sum({_DOLLARS}) * {HOURS_PER_MONTH}", unit="currencyUSD", number=True),
        Panel("Per hour, by pool", _DOLLARS, "{{pool}}", "currencyUSD"),
        Panel(
            "Per hour, by namespace: GPUs in use",
            f"sum by (namespace) ((sum by (namespace, pool) ({GPUS_IN_USE} * on (node) group_left (pool) {NODE_POOL}))"
            f" * on (pool) group_left () ({_PER_GPU}))",
            "{{namespace}}",
            "currencyUSD",
        ),
        Panel(
            "Per hour, by pool: GPUs without a job",
            f"(({_build_pool_query(_GPUS_PER_NODE)}) - "
            f"({_build_pool_query(f'sum by (node) ({GPUS_IN_USE})')} or 0 * {_build_pool_query(_GPUS_PER_NODE)}))"
            f" * on (pool) ({_PER_GPU})",
            "{{pool}}",
            "currencyUSD",
        ),
        Panel("Spent in the last 24 hours", f"sum(sum_over_time(({_DOLLARS})[24h:5m])) / 12", unit="currencyUSD", number=True),
    ),
)
DASHBOARDS: Final = (CLUSTER, POOL, JOBS, GPUS, QUEUE, COST)
