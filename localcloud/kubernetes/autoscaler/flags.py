"""Parse the command line of the real cluster-autoscaler. Flags that the emulator does not implement are accepted and
ignored.

https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md#what-are-the-parameters-to-ca
"""

import argparse
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from localcloud.kubernetes.autoscaler.scale_down import Rules
from localcloud.kubernetes.autoscaler.scale_up import EXPANDERS

_DURATION = re.compile(r"(?:(?P<h>\d+(?:\.\d+)?)h)?(?:(?P<m>\d+(?:\.\d+)?)m)?(?:(?P<s>\d+(?:\.\d+)?)s)?(?:(?P<ms>\d+)ms)?")
_DISCOVERY = re.compile(r"asg:tag=(?P<tags>.+)")
POD_DELAY, GPU_POD_DELAY = 2.0, 30.0
"""A scale-up waits until the oldest unschedulable pod is at least this old, in seconds. GPU_POD_DELAY applies to pods
with GPUs. These are constants of the real program:
kubernetes/autoscaler@006685c:cluster-autoscaler/core/static_autoscaler.go (unschedulablePodTimeBuffer).
"""
_IGNORED = (
    "alsologtostderr",
    "aws-use-static-instance-list",
    "balance-similar-node-groups",
    "cordon-node-before-terminating",
    "feature-gates",
    "kube-client-burst",
    "kube-client-qps",
    "leader-elect",
    "leader-elect-lease-duration",
    "leader-elect-renew-deadline",
    "leader-elect-resource-lock",
    "leader-elect-resource-name",
    "leader-elect-resource-namespace",
    "leader-elect-retry-period",
    "logging-format",
    "logtostderr",
    "max-bulk-soft-taint-count",
    "max-failing-time",
    "max-total-unready-percentage",
    "ok-total-unready-count",
    "profiling",
    "record-duplicated-events",
    "stderrthreshold",
    "unremovable-node-recheck-timeout",
    "v",
    "write-status-configmap",
)
"""Flags of the real cluster-autoscaler that the emulator accepts, logs and ignores."""


@dataclass(frozen=True)
class Options:
    discovery: tuple[Mapping[str, str | None], ...]
    """Sets of tags. A group is managed if it has all tags of at least one set. A tag value of None matches any
    value."""
    kubeconfig: Path | None
    region: str | None
    port: int
    expander: str
    scan_interval: float
    max_node_provision_time: float
    initial_backoff: float
    scale_down_enabled: bool
    scale_down_unneeded_time: float
    scale_down_unready_time: float
    scale_down_delay_after_add: float
    scale_down_delay_after_delete: float
    scale_down_delay_after_failure: float
    scale_down_parallelism: int
    max_graceful_termination: float
    expendable_priority: int
    gpu_pod_delay: float
    """Minimum age in seconds of the oldest unschedulable pod with GPUs before a scale-up."""
    rules: Rules
    ignored: tuple[str, ...]
    """Flags on the command line that the emulator ignores."""


def parse_duration(text: str) -> float:
    """Parse a duration in Go's format: `10m`, `1h30m`, `0.5s` or `0`."""
    if text == "0":
        return 0.0
    matched = _DURATION.fullmatch(text)
    if matched is None or not text:
        raise argparse.ArgumentTypeError(f"must be a duration such as 10m or 1h30m (got {text!r})")
    units = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
    return sum(float(matched[unit]) * factor for unit, factor in units.items() if matched[unit])


def parse_discovery_tags(text: str) -> Mapping[str, str | None]:
    """Parse `asg:tag=KEY,KEY=VALUE`."""
    matched = _DISCOVERY.fullmatch(text)
    if matched is None:
        raise argparse.ArgumentTypeError(f"must have the form asg:tag=KEY[=VALUE],... (got {text!r})")
    parts = (part.partition("=") for part in matched["tags"].split(","))
    return {key: value if equals else None for key, equals, value in parts}


def parse(arguments: Sequence[str]) -> Options:
    """Parse the command line. Exit with a usage error for flags that the real cluster-autoscaler rejects."""
    flags = _build_parser().parse_args([_normalize_argument(argument) for argument in arguments])
    names = [argument.lstrip("-").split("=")[0] for argument in arguments]
    if flags.cloud_provider != "aws":
        _build_parser().error(f"cloud provider {flags.cloud_provider} is not supported. Use aws")
    return Options(
        discovery=tuple(flags.node_group_auto_discovery),
        kubeconfig=flags.kubeconfig,
        region=flags.aws_region,
        port=int(flags.address.rsplit(":", 1)[-1]),
        expander=flags.expander,
        scan_interval=flags.scan_interval,
        max_node_provision_time=flags.max_node_provision_time,
        initial_backoff=flags.initial_node_group_backoff_duration,
        scale_down_enabled=flags.scale_down_enabled,
        scale_down_unneeded_time=flags.scale_down_unneeded_time,
        scale_down_unready_time=flags.scale_down_unready_time,
        scale_down_delay_after_add=flags.scale_down_delay_after_add,
        scale_down_delay_after_delete=(
            flags.scan_interval if flags.scale_down_delay_after_delete is None else flags.scale_down_delay_after_delete
        ),
        scale_down_delay_after_failure=flags.scale_down_delay_after_failure,
        scale_down_parallelism=flags.max_scale_down_parallelism,
        max_graceful_termination=float(flags.max_graceful_termination_sec),
        expendable_priority=flags.expendable_pods_priority_cutoff,
        gpu_pod_delay=flags.local_gpu_pod_delay,
        rules=Rules(
            utilization_threshold=flags.scale_down_utilization_threshold,
            gpu_utilization_threshold=flags.scale_down_gpu_utilization_threshold,
            skip_system_pods=flags.skip_nodes_with_system_pods,
            skip_local_storage=flags.skip_nodes_with_local_storage,
            skip_custom_controllers=flags.skip_nodes_with_custom_controller_pods,
        ),
        ignored=tuple(name for name in names if name in _IGNORED),
    )


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="cluster-autoscaler", allow_abbrev=False)
    add = parser.add_argument
    add("--cloud-provider", default="aws")
    add("--node-group-auto-discovery", type=parse_discovery_tags, action="append", default=[])
    add("--kubeconfig", type=Path)
    add("--aws-region", help="AWS region; default: AWS_REGION")
    add("--address", default=":8085", help="listen address of the health check")
    add(
        "--local-gpu-pod-delay",
        type=parse_duration,
        default=GPU_POD_DELAY,
        help="emulator only: how long new pods with GPUs wait for more pods",
    )
    add("--expander", choices=sorted(EXPANDERS), default="least-waste")
    for name, default in (
        ("scan-interval", 10.0),
        ("max-node-provision-time", 900.0),
        ("initial-node-group-backoff-duration", 300.0),
        ("scale-down-unneeded-time", 600.0),
        ("scale-down-unready-time", 1200.0),
        ("scale-down-delay-after-add", 600.0),
        ("scale-down-delay-after-delete", None),
        ("scale-down-delay-after-failure", 180.0),
    ):
        add(f"--{name}", type=parse_duration, default=default)
    for name, default in (("utilization", 0.5), ("gpu-utilization", 0.5)):
        add(f"--scale-down-{name}-threshold", type=float, default=default)
    for name in (
        "scale-down-enabled",
        "skip-nodes-with-system-pods",
        "skip-nodes-with-local-storage",
        "skip-nodes-with-custom-controller-pods",
    ):
        add(f"--{name}", type=_parse_boolean, default=True)
    add("--max-scale-down-parallelism", type=int, default=10)
    add("--max-graceful-termination-sec", type=int, default=600)
    add("--expendable-pods-priority-cutoff", type=int, default=-10)
    for name in _IGNORED:
        add(f"--{name}", nargs="?", help=argparse.SUPPRESS)
    return parser


def _parse_boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"must be true or false (got {text!r})")
    return text == "true"


def _normalize_argument(argument: str) -> str:
    """Convert a Go-style argument for argparse: `-flag` becomes `--flag`, and a boolean flag without a value becomes
    `--flag=true`."""
    text = f"-{argument}" if argument.startswith("-") and not argument.startswith("--") else argument
    switches = ("--scale-down-enabled", "--skip-nodes-with-")
    return f"{text}=true" if text.startswith(switches) and "=" not in text else text
