"""Health issues of a node group, as EKS reports them.

https://docs.aws.amazon.com/eks/latest/APIReference/API_Issue.html
https://docs.aws.amazon.com/eks/latest/userguide/troubleshooting.html
"""

from typing import Any

from localcloud.aws import events
from localcloud.aws.autoscaling import capacity
from localcloud.aws.call import backend_of
from localcloud.aws.ec2 import reachability
from localcloud.aws.eks import joining
from localcloud.aws.eks.node_groups import bootstrap, nodes
from localcloud.aws.eks.state import Cluster, NodeGroup, Record
from localcloud.aws.errors import AwsError

_CODES = {"InsufficientFreeAddressesInSubnet": "InsufficientFreeAddresses"}
"""Maps an EC2 launch error to EKS's issue code. All other launch errors have the issue code AsgInstanceLaunchFailures."""

_CREATION_CODES = (
    ("image", "AmiIdNotFound"),
    ("Invalid IAM Instance Profile", "IamInstanceProfileNotFound"),
    ("security group", "Ec2SecurityGroupNotFound"),
    ("subnet ID", "Ec2SubnetNotFound"),
)
"""Maps each part of Auto Scaling's error message to the EKS issue code.

All other errors have the issue code Ec2LaunchTemplateInvalidConfiguration.
"""


def build_issue(code: str, message: str, resource_ids: list[str]) -> Record:
    return {"code": code, "message": message, "resourceIds": resource_ids}


def explain_failed_group(error: AwsError, name: str) -> Record:
    """Return the health issue of a node group whose Auto Scaling group could not be created."""
    code = next((code for part, code in _CREATION_CODES if part in error.message), "Ec2LaunchTemplateInvalidConfiguration")
    return build_issue(code, error.message, [name])


def explain_failed_launch(error: AwsError, name: str) -> Record:
    return build_issue(_CODES.get(error.code, "AsgInstanceLaunchFailures"), error.message, [name])


def find_launch_problems(cluster: Cluster, group: NodeGroup) -> list[Record]:
    """Return the issues of an existing node group: missing resources and failed launches."""
    ec2 = backend_of("ec2", cluster.account, cluster.region)
    scaling_groups = nodes.list_auto_scaling_groups(cluster, group)
    gone = [name for name in group.group_names if name not in {scaling.name for scaling in scaling_groups}]
    problems = [
        build_issue("AutoScalingGroupNotFound", f"We couldn't find the Auto Scaling group {name} of the node group.", [name])
        for name in gone
    ]
    if group.template_id is not None and group.template_id not in ec2.launch_templates:
        text = f"We couldn't find the Amazon EC2 launch template {group.template_id} for your managed node group."
        problems.append(build_issue("Ec2LaunchTemplateNotFound", text, [group.template_id]))
    for scaling in scaling_groups:
        refused = capacity.list_recent_errors(scaling)
        if refused:
            problems.append(explain_failed_launch(refused[0], scaling.name))
    return problems


def update_health(cluster: Cluster, group: NodeGroup) -> None:
    """Update the recorded size, health and status of a node group. The group's Auto Scaling group and nodes can
    change without EKS.

    The node group is DEGRADED while launches fail or nodes are missing. Nodes that are still joining do not count as
    missing.
    """
    record = group.record
    for scaled in nodes.list_auto_scaling_groups(cluster, group):
        record["scalingConfig"]["desiredSize"] = scaled.desired_capacity
    issues = find_launch_problems(cluster, group) or find_unjoinable_nodes(cluster, group) or _find_missing_nodes(cluster, group)
    record["health"]["issues"] = issues
    record["status"] = "DEGRADED" if issues else "ACTIVE"


def mark_failed(group: NodeGroup, status: str, reason: str) -> None:
    """Record that EKS itself failed to create or delete the node group."""
    group.record["status"] = status
    group.record["health"]["issues"] = [build_issue("InternalFailure", reason, [group.name])]


def find_creation_issues(cluster: Cluster, group: NodeGroup) -> list[Record]:
    """Return the issues that make a new node group fail."""
    issues = find_launch_problems(cluster, group) or find_join_problems(cluster, group) or _find_missing_nodes(cluster, group)
    reason = cluster.get_node_group_progress(group).problem
    return issues or ([build_issue("NodeCreationFailure", _format_join_failure(reason), [group.name])] if reason else [])


def find_unjoinable_nodes(cluster: Cluster, group: NodeGroup) -> list[Record]:
    """Return an issue if instances cannot join because of their AMI or user data."""
    reasons = {
        instance.id: bootstrap.explain_join_failure(cluster.name, instance) for instance in nodes.find_in_service(cluster, group)
    }
    refused = [instance_id for instance_id, reason in reasons.items() if reason]
    if not refused:
        return []
    return [build_issue("NodeCreationFailure", _format_join_failure(f"{refused[0]}: {reasons[refused[0]]}"), refused)]


def _find_missing_nodes(cluster: Cluster, group: NodeGroup) -> list[Record]:
    """Return an issue if the realizer is done but fewer nodes than desired are Ready."""
    progress = cluster.get_node_group_progress(group)
    desired = sum(scaled.desired_capacity for scaled in nodes.list_auto_scaling_groups(cluster, group))
    if not progress.done or progress.ready is None or progress.ready >= desired:
        return []
    instances = nodes.find_in_service(cluster, group)
    lost = (events.query_progress("instance", instance.id, cluster.region, cluster.account).problem for instance in instances)
    reason = progress.problem or next(filter(None, lost), "") or f"{progress.ready} of {desired} nodes are Ready"
    return [
        build_issue("NodeCreationFailure", _format_join_failure(reason), [instance.id for instance in instances] or [group.name])
    ]


def _format_join_failure(reason: str) -> str:
    """Return EKS's message plus the reason. EKS itself would not report the reason."""
    return f"{joining.NOT_REGISTERED}: {reason}" if reason else joining.NOT_REGISTERED


def find_join_problems(cluster: Cluster, group: NodeGroup) -> list[Record]:
    """Return the issues that keep new instances from joining as nodes."""
    instances = nodes.find_in_service(cluster, group)
    if not instances:
        return []
    public = sorted({subnet for instance in instances if (subnet := _find_public_subnet_problem(cluster, instance))})
    if public:
        text = (
            f"One or more Amazon EC2 Subnets of [{', '.join(public)}] for node group {group.name} does not automatically assign "
            "public IP addresses to instances launched into it. If you want your instances to be assigned a public IP address, "
            "then you need to enable auto-assign public IP address for the subnet."
        )
        return [build_issue("Ec2SubnetInvalidConfiguration", text, public)]
    if refused := find_unjoinable_nodes(cluster, group):
        return refused
    obstacles = {instance.id: _find_join_obstacle(cluster, group, instance) for instance in instances}
    first = next((obstacle for obstacle in obstacles.values() if obstacle is not None), None)
    if first is None:
        return []
    return [build_issue("NodeCreationFailure", str(first), [id for id, obstacle in obstacles.items() if obstacle is not None])]


def _find_join_obstacle(cluster: Cluster, group: NodeGroup, instance: Any) -> joining.Obstacle | None:
    return joining.find_obstacle(cluster, instance, group.record["nodeRole"])


def _find_public_subnet_problem(cluster: Cluster, instance: Any) -> str | None:
    """Return the node's subnet id if the subnet is public but the node lacks the required public address.

    https://docs.aws.amazon.com/eks/latest/userguide/create-managed-node-group.html
    """
    ec2 = backend_of("ec2", cluster.account, cluster.region)
    has_address = instance.public_ip_address or not reachability.is_public(ec2, instance.subnet_id)
    return None if has_address else str(instance.subnet_id)
