"""Managed node groups: https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateNodegroup.html

Each node group has an Auto Scaling group with instances, and a launch template and instance profile owned by EKS.
"""

from localcloud.aws import durations
from localcloud.aws.call import Call
from localcloud.aws.eks import access_entries
from localcloud.aws.eks.errors import build_in_use_error, build_invalid_request_error, check_quota
from localcloud.aws.eks.node_groups import checks, health, launch, scaling
from localcloud.aws.eks.state import (
    Cluster,
    NodeGroup,
    Record,
    build_page,
    check_not_updating,
    find_cluster,
    find_node_group,
    publish_node_group,
)
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import operation


@operation("eks", "CreateNodegroup")
def create_nodegroup(call: Call) -> Record:
    cluster, params = find_cluster(call), call.params
    name, token = params["nodegroupName"], params.get("clientRequestToken", "")
    existing = cluster.node_groups.get(name)
    if existing is not None:
        if token and token == existing.token:
            return {"nodegroup": existing.record}
        raise build_in_use_error(
            f"NodeGroup already exists with name {name} and cluster name {cluster.name}",
            clusterName=cluster.name,
            nodegroupName=name,
        )
    if cluster.status != "ACTIVE":
        raise build_invalid_request_error(f"Cluster '{cluster.name}' is not in ACTIVE status", clusterName=cluster.name)
    check_quota("L-6D54EA21", "Nodegroup", len(cluster.node_groups), clusterName=cluster.name, nodegroupName=name)
    group = checks.build_checked_group(call, cluster, token)
    cluster.node_groups[name] = group
    access_entries.add_node_entry(cluster, group.record["nodeRole"])
    # Launch the instances first, so that they are in service before the node group becomes ACTIVE.
    refusal = _launch_nodes(call, cluster, group)
    durations.schedule(
        group.record,
        "status",
        "CREATING",
        lambda: _finish_creation(cluster, group, refusal),
        "eks-node-group",
        then=lambda: publish_node_group(cluster, group, "changed"),
        gate=lambda: cluster.get_node_group_progress(group).done,
        fail=lambda reason: health.mark_failed(group, "CREATE_FAILED", reason),
    )
    publish_node_group(cluster, group, "created")
    return {"nodegroup": group.record}


def _launch_nodes(call: Call, cluster: Cluster, group: NodeGroup) -> AwsError | None:
    """Create the instance profile, launch template and Auto Scaling group. Return Auto Scaling's error, if any."""
    record, ec2, iam = group.record, call.backend_of("ec2"), call.backend_of("iam")
    own_name = f"eks-{group.uuid}"
    launch.create_profile(iam, cluster, record, own_name)
    group.profile = own_name
    name = f"eks-{group.name}-{group.uuid}"
    try:
        data = launch.build_template_data(cluster, record, group.template, group.types, own_name)
        group.template_id = launch.create_template(ec2, cluster, record, own_name, data)
        scaling.create_auto_scaling_group(cluster, group, name)
    except AwsError as error:
        return error
    record["resources"] = {"autoScalingGroups": [{"name": name}]}
    return None


def _finish_creation(cluster: Cluster, group: NodeGroup, refusal: AwsError | None) -> str:
    """Return the status of a new node group: ACTIVE only if the desired number of nodes is Ready."""
    issues = (
        health.find_creation_issues(cluster, group) if refusal is None else [health.explain_failed_group(refusal, group.name)]
    )
    group.record["health"]["issues"] = issues
    return "CREATE_FAILED" if issues else "ACTIVE"


@operation("eks", "DescribeNodegroup")
def describe_nodegroup(call: Call) -> Record:
    cluster = find_cluster(call)
    group = find_node_group(call, cluster)
    if group.record["status"] in ("ACTIVE", "DEGRADED"):
        health.update_health(cluster, group)
    return {"nodegroup": group.record}


@operation("eks", "ListNodegroups")
def list_nodegroups(call: Call) -> Record:
    return build_page(call, "nodegroups", sorted(find_cluster(call).node_groups))


@operation("eks", "DeleteNodegroup")
def delete_nodegroup(call: Call) -> Record:
    cluster = find_cluster(call)
    group = find_node_group(call, cluster)
    if group.record["status"] == "DELETING":
        return {"nodegroup": group.record}
    check_not_updating(f"nodegroup {group.name}", group.updates, "delete")
    scaling.scale_to_zero(cluster, group)
    ec2, iam = call.backend_of("ec2"), call.backend_of("iam")

    def finish_deletion() -> None:
        scaling.delete_auto_scaling_groups(cluster, group)
        if group.template_id is not None:
            launch.delete_template(ec2, group.template_id)
        if group.profile is not None:
            launch.delete_profile(iam, group.profile)
        if cluster.node_groups.get(group.name) is group:
            del cluster.node_groups[group.name]
        publish_node_group(cluster, group, "gone")

    durations.schedule(
        group.record,
        "status",
        "DELETING",
        "DELETED",
        "eks-node-group-delete",
        then=finish_deletion,
        gate=lambda: cluster.get_node_group_progress(group).done,
        fail=lambda reason: health.mark_failed(group, "DELETE_FAILED", reason),
    )
    publish_node_group(cluster, group, "changed")
    return {"nodegroup": group.record}
