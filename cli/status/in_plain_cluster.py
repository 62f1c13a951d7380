"""The status of a plain EC2 cluster: from AWS, and what its nodes left in the key bucket."""

from cli.launches import last_failed
from cli.plain_cluster import MASTER, BootLog, PlainCluster
from cli.status.model import PoolStatus, Status, VolumeStatus
from infra.naming import SHARED_CLAIM


def read(cluster: PlainCluster) -> Status:
    """One look. Raises cli.plain_cluster.Failed."""
    group, nodes = cluster.group(), cluster.nodes()
    notices = {node.id: cluster.notice(node) for node in nodes if node.profile_arn}
    masters = [node for node in nodes if node.is_master]
    workers = [node for node in nodes if not node.is_master]
    joined = [node for node in workers if node.state == "InService"]
    ready = [node for node in masters if node.state == "running" and notices.get(node.id)]
    logs = {log.instance_id: log for log in cluster.boot_logs()}
    waits = [] if ready else ["its master boots" if masters else "it has no master"]
    if len(joined) != group.desired:
        waits.append(f"{len(joined)} of {group.desired} workers have joined")
    return Status(
        cluster=cluster.naming.cluster,
        kind="ec2",
        state="; ".join(waits) or "ready",
        address=masters[0].address if masters else "",
        pools=(
            PoolStatus(
                MASTER,
                masters[0].instance_type if masters else "",
                ready=len(ready),
                there=len(masters),
                wanted=1,
                minimum=1,
                maximum=1,
                problems=tuple(_could_not_boot(logs[node.id]) for node in masters if node.id in logs and not ready),
            ),
            PoolStatus(
                "workers",
                ", ".join(sorted({node.instance_type for node in workers})),
                ready=len(joined),
                there=len(workers),
                wanted=group.desired,
                minimum=group.minimum,
                maximum=group.maximum,
                problems=tuple(_could_not_boot(logs[node.id]) for node in workers if node.id in logs and node not in joined),
                failed_launch=last_failed(cluster.activities()),
            ),
        ),
        volumes=(VolumeStatus(SHARED_CLAIM, cluster.shared),) if cluster.shared else (),
    )


def _could_not_boot(log: BootLog) -> str:
    last = next((line.strip() for line in reversed(log.text.splitlines()) if line.strip()), "its log is empty")
    return f"{log.instance_id} could not join ({log.written}): {last}"
