"""A node that cannot become a member leaves its log in the bucket; a worker is then replaced."""

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpumpi_join import machine
from gpumpi_join.bucket import Bucket, own_folder
from gpumpi_join.cluster_file import ClusterFile

log = logging.getLogger("gpumpi-join")

BOOT_LOG = Path("/var/log/cloud-init-output.log")
TAIL_BYTES = 64 * 1024
JOURNAL = ("journalctl", "--unit=gpumpi-join", "--lines=100", "--no-pager", "--output=cat")
WAITING = "Pending:Wait"
"""The lifecycle state of a worker that has not joined yet. One that is in service is never given up for what others do."""


class GivingUp:
    """When a worker has tried for long enough, and what it does then."""

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
        """`since`: when its boot told it what it is, by this machine's clock."""
        self._cluster, self._autoscaling = cluster, autoscaling
        self._bucket = Bucket(s3, cluster.bucket)
        self._instance_id, self._folder = instance_id, own_folder(identity)
        self._since, self._clock, self._logs = since, clock, logs or both_logs

    def if_due(self, obstacle: str) -> None:
        """Called after every round in which the node has not joined. Raises nothing: the next round comes anyway."""
        waited = self._clock() - self._since
        if self._cluster.is_master or waited < self._cluster.join_seconds:
            return
        try:
            if lifecycle_state(self._autoscaling, self._instance_id) == WAITING:
                self.now(self._logs() + f"gpumpi: not joined {waited:.0f} s after its boot: {obstacle}\n".encode())
        except Exception as error:
            log.warning("cannot give up: %s", error)

    def now(self, text: bytes) -> None:
        """Who cannot be reached with the log is told of the end all the same."""
        try:
            self._bucket.put_boot_log(self._folder, text[-TAIL_BYTES:])
        except Exception as error:
            log.warning("the log of this boot cannot be left in the bucket: %s", error)
        if not self._cluster.is_master:
            log.warning("giving up")
            complete_join(self._autoscaling, self._cluster, self._instance_id, "ABANDON")


def lifecycle_state(autoscaling: Any, instance_id: str) -> str:
    """Of a worker; empty where it is in no group."""
    found = autoscaling.describe_auto_scaling_instances(InstanceIds=[instance_id])["AutoScalingInstances"]
    return str(found[0]["LifecycleState"]) if found else ""


def complete_join(autoscaling: Any, cluster: ClusterFile, instance_id: str, result: str) -> None:
    """Tell the autoscaling group that this instance may serve (CONTINUE) or shall be replaced (ABANDON)."""
    autoscaling.complete_lifecycle_action(
        AutoScalingGroupName=cluster.auto_scaling_group,
        LifecycleHookName=cluster.lifecycle_hook,
        InstanceId=instance_id,
        LifecycleActionResult=result,
    )


def both_logs(boot_log: Path = BOOT_LOG, run: machine.Run = machine.run) -> bytes:
    """What the boot and the service said, each its end."""
    boot = boot_log.read_bytes()[-TAIL_BYTES // 2 :] if boot_log.exists() else b"no log of the boot was written\n"
    return boot + run(JOURNAL).stdout.encode()[-TAIL_BYTES // 4 :]
