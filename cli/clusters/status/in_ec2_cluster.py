"""Read the status of an EC2 cluster from AWS and from the files that its nodes uploaded to the key bucket."""

from cli.clusters.status.cluster_status import PoolStatus, Status, VolumeStatus
from cli.ec2.ec2_instances import HEAD_NODE, BootLog, DeployedEc2Cluster
from cli.ec2.failed_launches import find_last_failed_launch
from infra.naming import SHARED_CLAIM


def read_status(cluster: DeployedEc2Cluster) -> Status:
    """Return the status of the cluster. Raises CommandError."""
    group, nodes = cluster.group(), cluster.nodes()
    notices = {node.id: cluster.read_notice(node) for node in nodes if node.profile_arn}
    head_nodes = [node for node in nodes if node.is_head_node]
    workers = [node for node in nodes if not node.is_head_node]
    joined = [node for node in workers if node.state == "InService"]
    ready = [node for node in head_nodes if node.state == "running" and notices.get(node.id)]
    problems = _find_join_problems(cluster)
    waits = [] if ready else ["head node is booting" if head_nodes else "no head node"]
    if len(joined) != group.desired:
        waits.append(f"{len(joined)} of {group.desired} workers have joined")
    return Status(
        cluster=cluster.naming.cluster,
        kind="ec2",
        state="; ".join(waits) or "ready",
        address=head_nodes[0].address if head_nodes else "",
        pools=(
            PoolStatus(
                HEAD_NODE,
                head_nodes[0].instance_type if head_nodes else "",
                ready=len(ready),
                nodes=len(head_nodes),
                wanted=1,
                min_size=1,
                max_size=1,
                problems=() if ready else tuple(problems[node.id] for node in head_nodes if node.id in problems),
            ),
            PoolStatus(
                "workers",
                ", ".join(sorted({node.instance_type for node in workers})),
                ready=len(joined),
                nodes=len(workers),
                wanted=group.desired,
                min_size=group.minimum,
                max_size=group.maximum,
                problems=tuple(problems[node.id] for node in workers if node not in joined and node.id in problems),
                last_failed_launch=find_last_failed_launch(cluster.activities()),
            ),
        ),
        volumes=(VolumeStatus(SHARED_CLAIM, cluster.shared),) if cluster.shared else (),
    )


def _find_join_problems(cluster: DeployedEc2Cluster) -> dict[str, str]:
    """Return why nodes could not join or have not joined yet, keyed by instance ID."""
    waiting = {
        log.instance_id: f"has not joined yet ({log.written}): {_get_last_line(log)}" for log in cluster.read_waiting_reasons()
    }
    failed = {log.instance_id: f"could not join ({log.written}): {_get_last_line(log)}" for log in cluster.read_boot_logs()}
    return {instance: f"{instance} {text}" for instance, text in {**waiting, **failed}.items()}


def _get_last_line(log: BootLog) -> str:
    return next((line.strip() for line in reversed(log.text.splitlines()) if line.strip()), "its log is empty")
