"""Validation of a node group before EKS creates it.

https://docs.aws.amazon.com/eks/latest/APIReference/API_CreateNodegroup.html
"""

import uuid

from localcloud.aws.call import Call
from localcloud.aws.eks import network, principals
from localcloud.aws.eks.errors import build_invalid_parameter_error, build_not_emulated_error
from localcloud.aws.eks.node_groups import image, settings, user_template
from localcloud.aws.eks.state import Cluster, NodeGroup, Record, UserTemplate, check_tags, now

DEFAULT_DISK_GIB = 20
CAPACITY_TYPES = ("ON_DEMAND", "SPOT", "CAPACITY_BLOCK")


def build_checked_group(call: Call, cluster: Cluster, token: str) -> NodeGroup:
    """Return the new node group, without creating anything. Raise EKS's errors for invalid settings."""
    params, name = call.params, call.params["nodegroupName"]
    for missing in ("remoteAccess", "warmPoolConfig"):
        if missing in params and "launchTemplate" not in params:
            raise build_not_emulated_error(missing)
    if not settings.NAME.fullmatch(name):
        raise build_invalid_parameter_error(f"The nodegroup name {name!r} does not match ^[0-9A-Za-z][A-Za-z0-9\\-_]{{0,62}}$")
    _check_subnets(call, cluster)
    _check_role(call, params["nodeRole"])
    template = user_template.read_user_template(call, params.get("launchTemplate"))
    _check_template_conflicts(params, template)
    types = image.choose_instance_types(params.get("instanceTypes", []), template, call.region)
    capacity_type = params.get("capacityType", "ON_DEMAND")
    if capacity_type not in CAPACITY_TYPES:
        raise build_invalid_parameter_error(
            f"Invalid capacity type: {capacity_type}. Valid values are: {', '.join(CAPACITY_TYPES)}"
        )
    user_template.check_market_options(capacity_type, template, params.get("instanceTypes", []))
    ami_type = image.choose_ami_type(params.get("amiType"), template, types, cluster.version)
    identifier = str(uuid.uuid4())
    record: Record = {
        "nodegroupName": name,
        "nodegroupArn": cluster.build_arn("nodegroup", name, identifier),
        "clusterName": cluster.name,
        **image.choose_versions(params, cluster, ami_type, template),
        "createdAt": now(),
        "modifiedAt": now(),
        "capacityType": capacity_type,
        "scalingConfig": settings.merge_scaling_config(params.get("scalingConfig", {}), settings.DEFAULT_SCALING),
        "subnets": list(params["subnets"]),
        "amiType": ami_type,
        "nodeRole": params["nodeRole"],
        "labels": settings.check_labels(params.get("labels", {})),
        "taints": settings.check_taints(params.get("taints", [])),
        "resources": {},
        "health": {"issues": []},
        "updateConfig": settings.merge_update_config(params.get("updateConfig", {}), settings.DEFAULT_UPDATE_CONFIG),
        "nodeRepairConfig": settings.check_repair_config(params.get("nodeRepairConfig", {})),
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
    vpc_id, subnet_ids = cluster.record["resourcesVpcConfig"]["vpcId"], call.params["subnets"]
    if not subnet_ids:
        raise build_invalid_parameter_error("At least one subnet must be specified")
    if any(subnet.vpc_id != vpc_id for subnet in network.find_subnets(call.backend_of("ec2"), subnet_ids)):
        raise build_invalid_parameter_error(f"Specified subnets must belong to cluster's vpc {vpc_id}", clusterName=cluster.name)


def _check_role(call: Call, arn: str) -> None:
    match = principals.IAM_PRINCIPAL.fullmatch(arn)
    if match is None or match["kind"] != "role":
        raise build_invalid_parameter_error(f"Invalid Role Arn: '{arn}'")
    role = principals.find_role(call, arn)
    if role is None:
        raise build_invalid_parameter_error(f"The role with name {match['name']} cannot be found.")
    if not principals.trusts_service(role, "ec2.amazonaws.com", "sts:AssumeRole"):
        raise build_invalid_parameter_error(
            "Following required service principals [ec2.amazonaws.com] were not found "
            f"in the trust relationships of nodeRole {arn}"
        )


def _check_template_conflicts(params: Record, template: UserTemplate) -> None:
    if template.id is None:
        return
    if "diskSize" in params:
        raise build_invalid_parameter_error("Disk size must be specified within the launch template.")
    if "remoteAccess" in params:
        raise build_invalid_parameter_error("Remote access configuration cannot be specified with a launch template.")
    if "warmPoolConfig" in params:
        raise build_not_emulated_error("warmPoolConfig")
