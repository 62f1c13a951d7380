"""Time limit for the workers of an EC2 cluster, from launch to join. Pure."""

from typing import Final

from infra.facts.instance_types import InstanceType

BASE_SECONDS: Final = 900
"""Enough for types with little memory: most EC2 instances boot within two minutes."""
SECONDS_PER_TIB: Final = 300
"""Large instances boot more slowly, because firmware and kernel initialize their memory. AWS publishes no figures: NOT
VERIFIED (2026-11-23). With this value, a p5.48xlarge (2 TiB) gets 25 minutes. AWS ParallelCluster allows 30 minutes for
every type:
https://docs.aws.amazon.com/parallelcluster/latest/ug/DevSettings-cluster-v3.html"""
BARE_METAL_SECONDS: Final = 1800
"""Bare metal instances "can take over 20 minutes to start": https://github.com/canonical/pycloudlib/pull/192"""
LONGEST_SECONDS: Final = 7200
"""Maximum timeout of a lifecycle hook:
https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_PutLifecycleHook.html"""

TIB_MIB: Final = 1024**2


def join_seconds(instance: InstanceType) -> int:
    """Return the limit in seconds, rounded down to minutes: 15 minutes plus 5 minutes per TiB of memory."""
    seconds = BASE_SECONDS + SECONDS_PER_TIB * instance.memory_mib // TIB_MIB
    if instance.is_bare_metal:
        seconds = max(seconds, BARE_METAL_SECONDS)
    return min(seconds, LONGEST_SECONDS) // 60 * 60
