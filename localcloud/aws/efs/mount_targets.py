"""Mount targets: https://docs.aws.amazon.com/efs/latest/ug/API_CreateMountTarget.html and related operations."""

from typing import Any

from localcloud.aws import durations
from localcloud.aws.call import Call
from localcloud.aws.efs.states import build_efs_error, find_file_system
from localcloud.aws.patching import operation

_MOST_SECURITY_GROUPS = 5


@operation("efs", "CreateMountTarget")
def _create_mount_target(call: Call) -> dict[str, Any]:
    file_system = find_file_system(call, ready=True)
    subnet = _find_subnet(call)
    groups = call.params.get("SecurityGroups") or [_find_default_security_group(call, subnet.vpc_id)]
    _check_security_groups(call, groups, subnet.vpc_id)
    zone = file_system.availability_zone_name
    if zone and zone != subnet.availability_zone:
        message = f"One Zone file system '{file_system.file_system_id}' is in {zone}, not {subnet.availability_zone}."
        raise build_efs_error("AvailabilityZonesMismatch", message)
    answer = call.moto()
    created = call.backend.mount_targets_by_id[answer["MountTargetId"]]
    created.security_groups = groups
    interface = call.backend_of("ec2").get_network_interface(created.network_interface_id)
    call.backend_of("ec2").modify_network_interface_attribute(interface.id, groups)
    interface.description = f"EFS mount target for {created.file_system_id} ({created.mount_target_id})"
    interface.requester_managed = True
    interface.status = "in-use"
    durations.schedule(created, "life_cycle_state", "creating", "available", "efs-mount-target")
    return {**answer, "LifeCycleState": created.life_cycle_state}


@operation("efs", "ModifyMountTargetSecurityGroups")
def _modify_security_groups(call: Call) -> dict[str, Any]:
    target = _find_mount_target(call)
    if target.life_cycle_state != "available":
        raise build_efs_error(
            "IncorrectMountTargetState", f"Mount target '{target.mount_target_id}' is {target.life_cycle_state}."
        )
    groups = call.params.get("SecurityGroups") or [_find_default_security_group(call, target.vpc_id)]
    _check_security_groups(call, groups, target.vpc_id)
    return call.moto()


@operation("efs", "DeleteMountTarget")
def _delete_mount_target(call: Call) -> None:
    """https://docs.aws.amazon.com/efs/latest/ug/API_DeleteMountTarget.html"""
    target = _find_mount_target(call)
    if target.life_cycle_state == "deleting":
        return

    def remove_mount_target() -> None:
        interface = call.backend_of("ec2").get_network_interface(target.network_interface_id)
        interface.status = "available"
        call.backend.delete_mount_target(target.mount_target_id)

    failed = durations.make_failure_handler(target, "life_cycle_state", "error")
    durations.schedule(
        target, "life_cycle_state", "deleting", "deleted", "efs-mount-target-delete", then=remove_mount_target, fail=failed
    )


def _find_mount_target(call: Call) -> Any:
    mount_target = call.backend.mount_targets_by_id.get(call.params["MountTargetId"])
    if mount_target is None:
        raise build_efs_error("MountTargetNotFound", f"Mount target '{call.params['MountTargetId']}' does not exist.")
    return mount_target


def _find_subnet(call: Call) -> Any:
    for zone in call.backend_of("ec2").subnets.values():
        if call.params["SubnetId"] in zone:
            return zone[call.params["SubnetId"]]
    raise build_efs_error("SubnetNotFound", f"The subnet ID '{call.params['SubnetId']}' does not exist")


def _find_default_security_group(call: Call, vpc_id: str) -> str:
    return str(call.backend_of("ec2").get_default_security_group(vpc_id).id)


def _check_security_groups(call: Call, groups: list[str], vpc_id: str) -> None:
    if len(groups) > _MOST_SECURITY_GROUPS:
        raise build_efs_error(
            "SecurityGroupLimitExceeded", "The maximum number of security groups per interface has been reached."
        )
    vpcs_by_group = {group.id: group.vpc_id for group in call.backend_of("ec2").describe_security_groups()}
    for group in groups:
        if vpcs_by_group.get(group) != vpc_id:
            raise build_efs_error("SecurityGroupNotFound", f"The SecurityGroup ID '{group}' does not exist in VPC '{vpc_id}'")
