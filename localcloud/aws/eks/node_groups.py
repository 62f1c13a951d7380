"""Managed node groups: https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateNodegroup.html

Each has a real auto scaling group with instances, a launch template and an instance profile of EKS's own.
"""

import uuid

from localcloud.aws import durations
from localcloud.aws.call import Call
from localcloud.aws.eks import (
    access_entries,
    network,
    node_group_health,
    node_group_image,
    node_group_settings,
    node_group_template,
    node_launch,
    node_scaling,
    nodes,
    principals,
)
from localcloud.aws.eks.errors import in_use, invalid_parameter, invalid_request, not_emulated
from localcloud.aws.eks.state import (
    Cluster,
    NodeGroup,
    Record,
    UserTemplate,
    check_tags,
    cluster_of,
    node_group_of,
    now,
    page,
    publish_node_group,
    refuse_while_updating,
)
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import operation

DEFAULT_DISK_GIB = 20
CAPACITY_TYPES = ("ON_DEMAND", "SPOT", "CAPACITY_BLOCK")


@operation("eks", "CreateNodegroup")
def create_nodegroup(call: Call) -> Record:
    cluster, params = cluster_of(call), call.params
    name, token = params["nodegroupName"], params.get("clientRequestToken", "")
    known = cluster.node_groups.get(name)
    if known is not None:
        if token and token == known.token:
            return {"nodegroup": known.record}
        raise in_use(
            f"NodeGroup already exists with name {name} and cluster name {cluster.name}",
            clusterName=cluster.name,
            nodegroupName=name,
        )
    if cluster.status != "ACTIVE":
        raise invalid_request(f"Cluster '{cluster.name}' is not in ACTIVE status", clusterName=cluster.name)
    group = _checked_group(call, cluster, token)
    cluster.node_groups[name] = group
    access_entries.add_nodes(cluster, group.record["nodeRole"])
    # After the instances' own transitions: they are in service by then.
    refusal = _launch(call, cluster, group)
    durations.schedule(
        group.record,
        "status",
        "CREATING",
        "ACTIVE",
        "eks-node-group",
        then=lambda: _now_created(cluster, group, refusal),
        gate=lambda: cluster.progress_of(group).done,
    )
    publish_node_group(cluster, group, "created")
    return {"nodegroup": group.record}


def _checked_group(call: Call, cluster: Cluster, token: str) -> NodeGroup:
    """The new node group as it will be described; refuses what EKS refuses, creates nothing."""
    params, name = call.params, call.params["nodegroupName"]
    for missing in ("remoteAccess", "warmPoolConfig"):
        if missing in params and "launchTemplate" not in params:
            raise not_emulated(missing)
    if not node_group_settings.NAME.fullmatch(name):
        raise invalid_parameter(f"The nodegroup name {name!r} does not match ^[0-9A-Za-z][A-Za-z0-9\\-_]{{0,62}}$")
    _check_subnets(call, cluster)
    _check_role(call, params["nodeRole"])
    template = node_group_template.read(call, params.get("launchTemplate"))
    _refuse_beside_template(params, template)
    types = node_group_image.chosen_types(params.get("instanceTypes", []), template, call.region)
    capacity_type = params.get("capacityType", "ON_DEMAND")
    if capacity_type not in CAPACITY_TYPES:
        raise invalid_parameter(f"Invalid capacity type: {capacity_type}. Valid values are: {', '.join(CAPACITY_TYPES)}")
    node_group_template.check_capacity(capacity_type, template, params.get("instanceTypes", []))
    ami_type = node_group_image.chosen_ami_type(params.get("amiType"), template, types, cluster.version)
    identifier = str(uuid.uuid4())
    record: Record = {
        "nodegroupName": name,
        "nodegroupArn": cluster.arn_of("nodegroup", name, identifier),
        "clusterName": cluster.name,
        **node_group_image.versions_of_new_group(params, cluster, ami_type, template),
        "createdAt": now(),
        "modifiedAt": now(),
        "capacityType": capacity_type,
        "scalingConfig": node_group_settings.scaling(params.get("scalingConfig", {}), node_group_settings.DEFAULT_SCALING),
        "subnets": list(params["subnets"]),
        "amiType": ami_type,
        "nodeRole": params["nodeRole"],
        "labels": node_group_settings.labels(params.get("labels", {})),
        "taints": node_group_settings.taints(params.get("taints", [])),
        "resources": {},
        "health": {"issues": []},
        "updateConfig": node_group_settings.update_config(
            params.get("updateConfig", {}), node_group_settings.DEFAULT_UPDATE_CONFIG
        ),
        "nodeRepairConfig": node_group_settings.repair_config(params.get("nodeRepairConfig", {})),
        "tags": check_tags(params.get("tags", {})),
    }
    if not template.instance_type:
        record["instanceTypes"] = types
    if template.id is None:
        record["diskSize"] = params.get("diskSize", DEFAULT_DISK_GIB)
    else:
        record["launchTemplate"] = template.record
    return NodeGroup(record, token, identifier, types, template)


def _check_subnets(call: Call, cluster: Cluster) -> None:
    vpc_id, wanted = cluster.record["resourcesVpcConfig"]["vpcId"], call.params["subnets"]
    if not wanted:
        raise invalid_parameter("At least one subnet must be specified")
    if any(subnet.vpc_id != vpc_id for subnet in network.subnets(call.backend_of("ec2"), wanted)):
        raise invalid_parameter(f"Specified subnets must belong to cluster's vpc {vpc_id}", clusterName=cluster.name)


def _check_role(call: Call, arn: str) -> None:
    match = principals.IAM_PRINCIPAL.fullmatch(arn)
    if match is None or match["kind"] != "role":
        raise invalid_parameter(f"Invalid Role Arn: '{arn}'")
    role = principals.role_of(call, arn)
    if role is None:
        raise invalid_parameter(f"The role with name {match['name']} cannot be found.")
    if not principals.trusts(role, "ec2.amazonaws.com", "sts:AssumeRole"):
        raise invalid_parameter(
            "Following required service principals [ec2.amazonaws.com] were not found "
            f"in the trust relationships of nodeRole {arn}"
        )


def _refuse_beside_template(params: Record, template: UserTemplate) -> None:
    if template.id is None:
        return
    if "diskSize" in params:
        raise invalid_parameter("Disk size must be specified within the launch template.")
    if "remoteAccess" in params:
        raise invalid_parameter("Remote access configuration cannot be specified with a launch template.")
    if "warmPoolConfig" in params:
        raise not_emulated("warmPoolConfig")


def _launch(call: Call, cluster: Cluster, group: NodeGroup) -> AwsError | None:
    """Make profile, template and auto scaling group; what Auto Scaling refused of it, if it did."""
    record, ec2, iam = group.record, call.backend_of("ec2"), call.backend_of("iam")
    own_name = f"eks-{group.uuid}"
    node_launch.create_profile(iam, cluster, record, own_name)
    group.profile = own_name
    name = f"eks-{group.name}-{group.uuid}"
    try:
        data = node_launch.template_data(cluster, record, group.template, group.types, own_name)
        group.template_id = node_launch.create_template(ec2, cluster, record, own_name, data)
        node_scaling.create(cluster, group, name)
    except AwsError as error:
        return error
    record["resources"] = {"autoScalingGroups": [{"name": name}]}
    return None


def _now_created(cluster: Cluster, group: NodeGroup, refusal: AwsError | None) -> None:
    if refusal is not None:
        problems = [node_group_health.of_refused_group(refusal, group.name)]
    else:
        problems = node_group_health.launch_problems(cluster, group) or node_group_health.join_problems(cluster, group)
        problems = problems or node_group_health.of_nodes(cluster.progress_of(group).problem, group.name)
    if problems:
        group.record["status"] = "CREATE_FAILED"
        group.record["health"]["issues"] = problems
    publish_node_group(cluster, group, "changed")


@operation("eks", "DescribeNodegroup")
def describe_nodegroup(call: Call) -> Record:
    cluster = cluster_of(call)
    group = node_group_of(call, cluster)
    _look_again(cluster, group)
    return {"nodegroup": group.record}


def _look_again(cluster: Cluster, group: NodeGroup) -> None:
    """Show what became of the auto scaling group: somebody else may size it, and its launches may fail."""
    record = group.record
    if record["status"] not in ("ACTIVE", "DEGRADED"):
        return
    for scaling in nodes.auto_scaling_groups(cluster, group):
        record["scalingConfig"]["desiredSize"] = scaling.desired_capacity
    problems = node_group_health.launch_problems(cluster, group)
    record["health"]["issues"] = problems
    record["status"] = "DEGRADED" if problems else "ACTIVE"


@operation("eks", "ListNodegroups")
def list_nodegroups(call: Call) -> Record:
    return page(call, "nodegroups", sorted(cluster_of(call).node_groups))


@operation("eks", "DeleteNodegroup")
def delete_nodegroup(call: Call) -> Record:
    cluster = cluster_of(call)
    group = node_group_of(call, cluster)
    if group.record["status"] == "DELETING":
        return {"nodegroup": group.record}
    refuse_while_updating(f"nodegroup {group.name}", group.updates, "delete")
    node_scaling.empty(cluster, group)
    ec2, iam = call.backend_of("ec2"), call.backend_of("iam")

    def gone() -> None:
        node_scaling.delete(cluster, group)
        if group.template_id is not None:
            node_launch.delete_template(ec2, group.template_id)
        if group.profile is not None:
            node_launch.delete_profile(iam, group.profile)
        if cluster.node_groups.get(group.name) is group:
            del cluster.node_groups[group.name]
        publish_node_group(cluster, group, "gone")

    durations.schedule(
        group.record,
        "status",
        "DELETING",
        "DELETED",
        "eks-node-group-delete",
        then=gone,
        gate=lambda: cluster.progress_of(group).done,
    )
    publish_node_group(cluster, group, "changed")
    return {"nodegroup": group.record}
