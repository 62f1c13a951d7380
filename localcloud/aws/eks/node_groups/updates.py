"""Updates of a managed node group.

https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateNodegroupConfig.html
https://docs.aws.amazon.com/eks/latest/APIReference/API_UpdateNodegroupVersion.html
"""

from typing import Any

from localcloud.aws.call import Call
from localcloud.aws.eks import updates, versions
from localcloud.aws.eks.errors import (
    build_in_use_error,
    build_invalid_parameter_error,
    build_invalid_request_error,
    build_not_emulated_error,
)
from localcloud.aws.eks.node_groups import health, image, launch, renewal, scaling, settings, user_template
from localcloud.aws.eks.state import (
    Cluster,
    NodeGroup,
    Record,
    UserTemplate,
    check_not_updating,
    find_cluster,
    find_node_group,
    now,
    publish_node_group,
)
from localcloud.aws.errors import AwsError
from localcloud.aws.patching import operation

_CONFIG = ("scalingConfig", "labels", "taints", "updateConfig", "nodeRepairConfig")


@operation("eks", "UpdateNodegroupConfig")
def update_nodegroup_config(call: Call) -> Record:
    cluster, params = find_cluster(call), call.params
    group = _find_updatable_group(call, cluster, "ConfigUpdate")
    if "warmPoolConfig" in params:
        raise build_not_emulated_error("warmPoolConfig")
    if not any(name in params for name in _CONFIG):
        raise build_invalid_parameter_error(
            "At least one of labels, taints, scaling config, update config and node repair config is required"
        )
    record = group.record
    after: Record = {}
    if "labels" in params:
        after["labels"] = settings.change_labels(params["labels"], record["labels"])
    if "taints" in params:
        after["taints"] = settings.change_taints(params["taints"], record["taints"])
    if "updateConfig" in params:
        after["updateConfig"] = settings.merge_update_config(params["updateConfig"], record["updateConfig"])
    if "nodeRepairConfig" in params:
        after["nodeRepairConfig"] = settings.check_repair_config(params["nodeRepairConfig"])
    if "scalingConfig" in params:
        after["scalingConfig"] = settings.merge_scaling_config(params["scalingConfig"], record["scalingConfig"])
        scaling.resize_groups(cluster, group, after["scalingConfig"])
    ec2 = call.backend_of("ec2")

    def can_finish() -> bool:
        return cluster.get_node_group_progress(group).done

    def finish_update(_: Record) -> None:
        record.update(after, modifiedAt=now())
        if "labels" in after or "taints" in after:
            # Running nodes receive new labels and taints through Kubernetes. For new nodes, labels and taints must be
            # in the user data.
            _renew_template(cluster, group, ec2, group.template, {})
        publish_config_change()

    def publish_config_change() -> None:
        health.update_health(cluster, group)
        publish_node_group(cluster, group, "changed")

    config = _build_update_params(params)
    update = updates.start_update(
        group.updates, "ConfigUpdate", config, "eks-node-group-update", finish_update, can_finish, failed=publish_config_change
    )
    record["status"] = "UPDATING"
    return {"update": update}


def _build_update_params(params: Record) -> dict[str, Any]:
    scaling, labels, taints = params.get("scalingConfig", {}), params.get("labels", {}), params.get("taints", {})
    config = params.get("updateConfig", {})
    return {
        "MinSize": _format_number(scaling.get("minSize")),
        "MaxSize": _format_number(scaling.get("maxSize")),
        "DesiredSize": _format_number(scaling.get("desiredSize")),
        "LabelsToAdd": labels.get("addOrUpdateLabels"),
        "LabelsToRemove": labels.get("removeLabels"),
        "TaintsToAdd": taints.get("addOrUpdateTaints"),
        "TaintsToRemove": taints.get("removeTaints"),
        "MaxUnavailable": _format_number(config.get("maxUnavailable")),
        "MaxUnavailablePercentage": _format_number(config.get("maxUnavailablePercentage")),
        "UpdateStrategy": config.get("updateStrategy"),
        "NodeRepairConfig": params.get("nodeRepairConfig"),
    }


def _format_number(value: int | None) -> str | None:
    return None if value is None else str(value)


@operation("eks", "UpdateNodegroupVersion")
def update_nodegroup_version(call: Call) -> Record:
    """Replace all nodes to update to the newest AMI, another Kubernetes version or another template version."""
    cluster, params = find_cluster(call), call.params
    group = _find_updatable_group(call, cluster, "VersionUpdate")
    record, ec2 = group.record, call.backend_of("ec2")
    _check_no_capacity_block_nodes(group)
    template = _read_new_template(call, group)
    after = _choose_versions(params, cluster, group, template)
    if template.id is not None:
        after["launchTemplate"] = template.record
    own_template = ec2.launch_templates.get(group.template_id)
    if own_template is None:
        raise build_invalid_request_error(
            f"We couldn't find the Amazon EC2 launch template {group.template_id} for your managed node group."
        )
    before = own_template.default_version_number
    if any(record.get(name) != value for name, value in after.items()):
        try:
            _renew_template(cluster, group, ec2, template, after)
        except AwsError as error:
            own_template.default_version_number = before
            raise build_invalid_request_error(error.message, clusterName=cluster.name, nodegroupName=group.name) from error

    def finish(failure: renewal.Failure | None) -> None:
        if failure is None:
            update["status"] = "Successful"
            record.update(after, modifiedAt=now())
            group.template, group.types = template, _choose_instance_types(group, template)
        else:
            own_template.default_version_number = before
            if group.template_id in ec2.launch_templates:
                scaling.use_latest_template(cluster, group, group.types)
            updates.fail_update(update, failure.code, failure.message, failure.resource_ids)
        health.update_health(cluster, group)
        publish_node_group(cluster, group, "changed")

    update = updates.create_update(
        group.updates,
        "VersionUpdate",
        {
            "Version": after["version"],
            "ReleaseVersion": after["releaseVersion"],
            "LaunchTemplateName": template.name,
            "LaunchTemplateVersion": template.version,
        },
    )
    record["status"] = "UPDATING"
    renewal.replace_outdated_nodes(cluster, group, update, finish, force=bool(params.get("force")))
    return {"update": update}


def _check_no_capacity_block_nodes(group: NodeGroup) -> None:
    """Reject an upgrade of a node group that has nodes in a Capacity Block.

    AWS's documentation requires size 0, but does not describe the error: code and text are NOT VERIFIED (2026-11-23).
    https://docs.aws.amazon.com/eks/latest/userguide/capacity-blocks-mng.html
    """
    if group.record["capacityType"] == "CAPACITY_BLOCK" and group.record["scalingConfig"]["desiredSize"] > 0:
        raise build_invalid_request_error(
            "The desired size of a node group with Capacity Blocks must be 0 when you upgrade it", nodegroupName=group.name
        )


def _find_updatable_group(call: Call, cluster: Cluster, update_type: str) -> NodeGroup:
    group = find_node_group(call, cluster)
    check_not_updating(f"nodegroup {group.name}", group.updates, update_type)
    if group.record["status"] not in ("ACTIVE", "DEGRADED"):
        raise build_in_use_error(
            "Nodegroup cannot be updated as it is currently not in Active State",
            clusterName=cluster.name,
            nodegroupName=group.name,
        )
    return group


def _choose_instance_types(group: NodeGroup, template: UserTemplate) -> list[str]:
    return [template.instance_type] if template.instance_type else group.types


def _read_new_template(call: Call, group: NodeGroup) -> UserTemplate:
    """Return the requested version of the node group's launch template, or the current version by default.

    https://docs.aws.amazon.com/eks/latest/userguide/launch-templates.html
    """
    reference, current = call.params.get("launchTemplate"), group.template
    if reference is None:
        return current
    if current.id is None:
        raise build_invalid_parameter_error(
            "A node group that was created without a launch template cannot be updated to use one"
        )
    template = user_template.read_user_template(call, reference)
    if template.id != current.id:
        raise build_invalid_parameter_error(
            f"The launch template {current.name} of a node group cannot be changed, only its version"
        )
    for what, before, now_given in (
        ("an instance type", current.instance_type, template.instance_type),
        ("an image id", current.image_id, template.image_id),
    ):
        if bool(before) != bool(now_given):
            word = "specify" if before else "not specify"
            raise build_invalid_request_error(f"You must continue to {word} {what} within the launch template")
    user_template.check_market_options(group.record["capacityType"], template, group.record.get("instanceTypes", []))
    return template


def _choose_versions(params: Record, cluster: Cluster, group: NodeGroup, template: UserTemplate) -> Record:
    record = group.record
    if record["amiType"] == "CUSTOM":
        image.reject_versions_with_custom_ami(params)
        return {"version": cluster.version, "releaseVersion": template.image_id}
    version = params.get("version", record["version"])
    if version not in versions.VERSIONS:
        raise build_invalid_parameter_error("unsupported Kubernetes version")
    if versions.parse_minor_version(version) > versions.parse_minor_version(cluster.version):
        raise build_invalid_parameter_error(
            f"Requested Nodegroup version {version} is newer than the cluster's version {cluster.version}"
        )
    if versions.parse_minor_version(version) == versions.parse_minor_version(record["version"]) - 1:
        raise build_invalid_request_error("The local cloud's EKS does not emulate version rollbacks.")
    if versions.parse_minor_version(version) < versions.parse_minor_version(record["version"]):
        raise build_invalid_parameter_error(f"Unsupported Nodegroup version update from {record['version']} to {version}")
    image.check_release_version(params.get("releaseVersion"), version)
    return {"version": version, "releaseVersion": image.find_release_version(version)}


def _renew_template(cluster: Cluster, group: NodeGroup, ec2: Any, template: UserTemplate, changes: Record) -> None:
    """Create a version of EKS's template with the changes, so that new nodes start with them."""
    if group.template_id not in ec2.launch_templates:
        return
    record, types = {**group.record, **changes}, _choose_instance_types(group, template)
    data = launch.build_template_data(cluster, record, template, types, str(group.profile))
    launch.add_version(ec2.launch_templates[group.template_id], data)
    scaling.use_latest_template(cluster, group, types)
