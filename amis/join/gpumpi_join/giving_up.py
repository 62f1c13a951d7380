"""Give up on joining: upload the node's log to the bucket and, on a worker, have the instance replaced."""

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpumpi_join import machine
from gpumpi_join.bucket import Bucket, build_own_s3_prefix
from gpumpi_join.cluster_file import ClusterFile

log = logging.getLogger("gpumpi-join")

BOOT_LOG = Path("/var/log/cloud-init-output.log")
TAIL_BYTES = 64 * 1024
JOURNAL = ("journalctl", "--unit=gpumpi-join", "--lines=100", "--no-pager", "--output=cat")
WAITING = "Pending:Wait"
"""Lifecycle state of a worker that has not joined yet. A worker in service never gives up because of other nodes."""


class GivingUp:
    """Gives up on joining when a worker has waited long enough."""

    def __init__(
        self,
        cluster: ClusterFile,
        s3: Any,
        autoscaling: Any,
        *,
        instance_id: str,
        identity: str,
        since: float,
        clock: Callable[[], float] = time.time,
        logs: "Callable[[], bytes] | None" = None,
    ) -> None:
        """`since`: when user data wrote the cluster file, by this machine's clock."""
        self._cluster, self._autoscaling = cluster, autoscaling
        self._bucket = Bucket(s3, cluster.bucket)
        self._instance_id, self._folder = instance_id, build_own_s3_prefix(identity)
        self._since, self._clock, self._logs = since, clock, logs or read_log_tails

    def give_up_if_due(self, obstacle: str) -> None:
        """Give up if the time limit has passed. Called after each round without joining.

        Failures are logged, not raised, because the next round tries again.
        """
        waited = self._clock() - self._since
        if self._cluster.is_master or waited < self._cluster.join_seconds:
            return
        try:
            if read_lifecycle_state(self._autoscaling, self._instance_id) == WAITING:
                self.give_up(self._logs() + f"gpumpi: not joined {waited:.0f} s after its boot: {obstacle}\n".encode())
        except Exception as error:
            log.warning("cannot give up: %s", error)

    def give_up(self, text: bytes) -> None:
        """Upload the log and abandon the launch, even if the upload fails."""
        try:
            self._bucket.put_boot_log(self._folder, text[-TAIL_BYTES:])
        except Exception as error:
            log.warning("cannot upload the boot log: %s", error)
        if not self._cluster.is_master:
            log.warning("giving up")
            complete_lifecycle_action(self._autoscaling, self._cluster, self._instance_id, "ABANDON")


def read_lifecycle_state(autoscaling: Any, instance_id: str) -> str:
    """Return a worker's lifecycle state; empty if the instance is not in an Auto Scaling group."""
    instances = autoscaling.describe_auto_scaling_instances(InstanceIds=[instance_id])["AutoScalingInstances"]
    return str(instances[0]["LifecycleState"]) if instances else ""


def complete_lifecycle_action(autoscaling: Any, cluster: ClusterFile, instance_id: str, result: str) -> None:
    """Tell the Auto Scaling group to put this instance in service (CONTINUE) or to replace it (ABANDON)."""
    autoscaling.complete_lifecycle_action(
        AutoScalingGroupName=cluster.auto_scaling_group,
        LifecycleHookName=cluster.lifecycle_hook,
        InstanceId=instance_id,
        LifecycleActionResult=result,
    )


def read_log_tails(boot_log: Path = BOOT_LOG, run: machine.Run = machine.run_command) -> bytes:
    """Return the ends of the boot log and of the service's journal."""
    boot = boot_log.read_bytes()[-TAIL_BYTES // 2 :] if boot_log.exists() else b"there is no boot log\n"
    return boot + run(JOURNAL).stdout.encode()[-TAIL_BYTES // 4 :]
