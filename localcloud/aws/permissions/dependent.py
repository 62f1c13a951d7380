"""Dependent actions: additional actions for which AWS requires the caller of an operation to have permission.

https://docs.aws.amazon.com/service-authorization/latest/reference/reference_policies_actions-resources-contextkeys.html
lists most of them per action. Sources for the other actions are given below. A request that needs a service-linked role
requires permission to create the role, even if the role exists: policies must also work in a new account.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from localcloud.aws import service_linked_roles
from localcloud.aws.call import Call
from localcloud.aws.permissions import actions, resources
from localcloud.aws.permissions.need import Need

_TAGGING: Mapping[str, tuple[str, str]] = {
    # Maps an operation that accepts tags to the action required for tagging, and to the ARN of the created resource.
    # https://docs.aws.amazon.com/IAM/latest/UserGuide/id_tags_roles.html, .../id_tags_instance-profiles.html
    "iam.CreateRole": ("iam:TagRole", ""),
    "iam.CreateInstanceProfile": ("iam:TagInstanceProfile", ""),
    # https://docs.aws.amazon.com/efs/latest/ug/using-tags-efs.html#supported-iam-actions-tagging
    "efs.CreateFileSystem": ("elasticfilesystem:TagResource", "file-system/*"),
    "efs.CreateAccessPoint": ("elasticfilesystem:TagResource", "access-point/*"),
    # https://docs.aws.amazon.com/fsx/latest/LustreGuide/using-tags-fsx.html
    "fsx.CreateFileSystem": ("fsx:TagResource", "file-system/*"),
    "fsx.CreateDataRepositoryAssociation": ("fsx:TagResource", "association/{FileSystemId}/*"),
    "ecr.CreateRepository": ("ecr:TagResource", ""),
    "kms.CreateKey": ("kms:TagResource", "key/*"),
    # https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_CreateLogGroup.html
    "logs.CreateLogGroup": ("logs:TagResource", ""),
    # Not verified: EKS documents eks:TagResource only for existing resources (2026-11-23), but other services also
    # check such an action at creation.
    "eks.CreateCluster": ("eks:TagResource", "cluster/{name}"),
    "eks.CreateNodegroup": ("eks:TagResource", "nodegroup/{clusterName}/{nodegroupName}/*"),
    "eks.CreateAddon": ("eks:TagResource", "addon/{clusterName}/{addonName}/*"),
    "eks.CreateAccessEntry": ("eks:TagResource", "access-entry/{clusterName}/*"),
    "eks.CreatePodIdentityAssociation": ("eks:TagResource", "podidentityassociation/{clusterName}/*"),
}


def find_dependent_permissions(call: Call) -> Iterator[Need]:
    yield from _find_tagging_permissions(call)
    if call.service == "ec2" and call.operation != "RunInstances":
        yield from _find_ec2_tagging_permissions(call, call.params.get("TagSpecifications", ()), call.operation)
    find = _FINDERS.get(f"{call.service}.{call.operation}")
    if find is not None:
        yield from find(call)


# --- tags --------------------------------------------------------------------------------------------------------------


def _find_tagging_permissions(call: Call) -> Iterator[Need]:
    tagging = _TAGGING.get(f"{call.service}.{call.operation}")
    if tagging is None or not (call.params.get("Tags") or call.params.get("tags")):
        return
    action, path = tagging
    prefix = action.split(":")[0]
    keys = {f"{prefix}:CreateAction": call.operation}
    named = (
        resources.find_arns(call, actions.action_name(call))
        if not path
        else (resources.build_arn(call, prefix, path.format_map(defaultdict(lambda: "*", call.params))),)
    )
    yield Need(action, named, keys)


def _find_ec2_tagging_permissions(call: Call, specifications: Any, operation: str) -> Iterator[Need]:
    """https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/supported-iam-actions-tagging.html"""
    kinds = sorted({specification["ResourceType"] for specification in specifications if specification.get("Tags")})
    if kinds:
        arns = tuple(resources.build_arn(call, "ec2", f"{kind}/*") for kind in kinds)
        yield Need("ec2:CreateTags", arns, {"ec2:CreateAction": operation}, tag_specifications=tuple(specifications))


# --- roles -------------------------------------------------------------------------------------------------------------


def _find_pass_role_permission(call: Call, role: str | None, service: str) -> Iterator[Need]:
    """https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_use_passrole.html"""
    if role:
        arn = role if role.startswith("arn:") else resources.build_role_arn(call, role)
        yield Need("iam:PassRole", (arn,), {"iam:PassedToService": service})


def _find_pass_profile_permission(call: Call, data: Mapping[str, Any]) -> Iterator[Need]:
    profile = data.get("IamInstanceProfile") or {}
    name = profile.get("Name") or str(profile.get("Arn", "")).rsplit("/", 1)[-1]
    profiles = (candidate for candidate in call.backend_of("iam").instance_profiles.values() if candidate.name == name)
    for role in (role for instance_profile in profiles for role in instance_profile.roles):
        yield from _find_pass_role_permission(call, role.arn, "ec2.amazonaws.com")


def _build_linked_role_permission(call: Call, service: str, error: tuple[str, str] | None = None) -> Need:
    """https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_create-service-linked-role.html"""
    role = f"arn:aws:iam::{call.account}:role{service_linked_roles.build_role_path(service)}{service_linked_roles.NAMES[service]}"
    return Need("iam:CreateServiceLinkedRole", (role,), {"iam:AWSServiceName": service}, error=error)


def _find_add_role_permissions(call: Call) -> Iterator[Need]:
    yield from _find_pass_role_permission(call, call.params.get("RoleName"), "ec2.amazonaws.com")


def _find_session_tag_permissions(call: Call) -> Iterator[Need]:
    """https://docs.aws.amazon.com/IAM/latest/UserGuide/id_session-tags.html"""
    if call.params.get("Tags"):
        yield Need("sts:TagSession", (call.params.get("RoleArn"),))


# --- EC2 and Auto Scaling ----------------------------------------------------------------------------------------------


_NO_SPOT_ROLE = (
    "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
    "The provided credentials do not have permission to create the service-linked role for EC2 Spot Instances.",
)
"""kubernetes/kops#16475"""


def _find_run_instances_permissions(call: Call) -> Iterator[Need]:
    data = resources.merge_launch_data(call, call.params)
    yield from _find_launch_permissions(call, data)
    if data.get("InstanceMarketOptions", {}).get("MarketType") == "spot":
        yield _build_linked_role_permission(call, service_linked_roles.SPOT, _NO_SPOT_ROLE)


def _find_launch_permissions(call: Call, data: Mapping[str, Any]) -> Iterator[Need]:
    yield from _find_pass_profile_permission(call, data)
    yield from _find_ec2_tagging_permissions(call, data.get("TagSpecifications", ()), "RunInstances")


def _find_flow_log_permissions(call: Call) -> Iterator[Need]:
    yield from _find_pass_role_permission(call, call.params.get("DeliverLogsPermissionArn"), "vpc-flow-logs.amazonaws.com")


def _find_vpc_endpoint_permissions(call: Call) -> Iterator[Need]:
    """https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html#amazonec2-CreateVpcEndpoint"""
    if call.params.get("VpcEndpointType") == "Interface" and call.params.get("PrivateDnsEnabled", True):
        yield Need("route53:AssociateVPCWithHostedZone", (None,))


def _find_scaling_group_permissions(call: Call) -> Iterator[Need]:
    """https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-api-permissions.html"""
    if call.operation == "CreateAutoScalingGroup":
        yield _build_linked_role_permission(call, "autoscaling.amazonaws.com")
    mixed = call.params.get("MixedInstancesPolicy") or {}
    specification = call.params.get("LaunchTemplate") or (mixed.get("LaunchTemplate") or {}).get("LaunchTemplateSpecification")
    if not specification:
        return
    data = resources.merge_launch_data(call, {"LaunchTemplate": specification})
    named = specification.get("LaunchTemplateId") or specification.get("LaunchTemplateName")
    # https://docs.aws.amazon.com/autoscaling/ec2/userguide/ts-as-launch-template.html
    error = ("ValidationError", f"You are not authorized to use launch template: {named}")
    tags = tuple(data.get("TagSpecifications", ()))
    yield Need("ec2:RunInstances", resources.find_launch_arns(call, data), error=error, tag_specifications=tags)
    yield from _find_launch_permissions(call, data)


def _find_lifecycle_hook_permissions(call: Call) -> Iterator[Need]:
    yield from _find_pass_role_permission(call, call.params.get("RoleARN"), "autoscaling.amazonaws.com")


# --- EKS ---------------------------------------------------------------------------------------------------------------


def _find_cluster_permissions(call: Call) -> Iterator[Need]:
    """https://docs.aws.amazon.com/eks/latest/userguide/using-service-linked-roles-eks.html, .../enable-kms.html"""
    yield from _find_pass_role_permission(call, call.params.get("roleArn"), "eks.amazonaws.com")
    yield _build_linked_role_permission(call, "eks.amazonaws.com")
    yield from _find_encryption_permissions(call)


def _find_encryption_permissions(call: Call) -> Iterator[Need]:
    for configuration in call.params.get("encryptionConfig", ()):
        if name := configuration.get("provider", {}).get("keyArn"):
            for action in ("kms:DescribeKey", "kms:CreateGrant"):
                yield Need(action, (resources.build_key_arn(call, name),), {"kms:CallerAccount": call.account})


def _find_node_group_permissions(call: Call) -> Iterator[Need]:
    """https://docs.aws.amazon.com/step-functions/latest/dg/eks-iam.html lists the permissions that EKS checks before it
    creates a node group.
    https://github.com/scylladb/scylla-cluster-tests/issues/12172 shows AWS's error for a launch template.
    """
    role = call.params.get("nodeRole")
    yield Need("ec2:DescribeSubnets")
    yield from _find_pass_role_permission(call, role, "eks.amazonaws.com")
    for action in ("iam:GetRole", "iam:ListAttachedRolePolicies"):
        yield Need(action, (role,))
    yield _build_linked_role_permission(call, "eks-nodegroup.amazonaws.com")
    yield from _find_node_template_permissions(call)


def _find_node_template_permissions(call: Call) -> Iterator[Need]:
    template = call.params.get("launchTemplate") or {}
    if not template:
        return
    names = {"id": "LaunchTemplateId", "name": "LaunchTemplateName", "version": "Version"}
    specification = {ours: template[key] for key, ours in names.items() if template.get(key)}
    data = resources.merge_launch_data(call, {"LaunchTemplate": specification})
    error = ("InvalidRequestException", "You are not authorized to launch instances with this launch template.")
    arns = resources.find_launch_arns(call, {**data, "SubnetIds": call.params.get("subnets")})
    tags = tuple(data.get("TagSpecifications", ()))
    yield Need("ec2:RunInstances", arns, error=error, tag_specifications=tags)
    for need in _find_ec2_tagging_permissions(call, tags, "RunInstances"):
        yield replace(need, error=error)


def _find_pod_identity_permissions(call: Call) -> Iterator[Need]:
    """Not verified (2026-11-23): the caller needs permission to pass the role to pods.eks.amazonaws.com."""
    associations = call.params.get("podIdentityAssociations", ())
    for role in (call.params.get("roleArn"), *(association.get("roleArn") for association in associations)):
        yield from _find_pass_role_permission(call, role, "pods.eks.amazonaws.com")
        if role:
            yield Need("iam:GetRole", (role,))


def _find_addon_permissions(call: Call) -> Iterator[Need]:
    yield from _find_pass_role_permission(call, call.params.get("serviceAccountRoleArn"), "eks.amazonaws.com")
    yield from _find_pod_identity_permissions(call)


# --- KMS and EFS -------------------------------------------------------------------------------------------------------


def _find_efs_permissions(call: Call) -> Iterator[Need]:
    """https://docs.aws.amazon.com/efs/latest/ug/EFSKMS.html lists the required permissions on the key."""
    yield from _find_storage_permissions(call, "elasticfilesystem")


def _find_fsx_permissions(call: Call) -> Iterator[Need]:
    """https://docs.aws.amazon.com/fsx/latest/LustreGuide/using-service-linked-roles.html, .../encryption-at-rest.html.

    Not verified: with ec2:GetSecurityGroupsForVpc, FSx validates the security groups (.../security-iam-awsmanpol.html).
    """
    yield Need("ec2:GetSecurityGroupsForVpc", (resources.build_arn(call, "ec2", "vpc/*"),))
    yield from _find_storage_permissions(call, "fsx")


def _find_storage_permissions(call: Call, service: str) -> Iterator[Need]:
    yield _build_linked_role_permission(call, f"{service}.amazonaws.com")
    if name := call.params.get("KmsKeyId"):
        via = {"kms:ViaService": f"{service}.{call.region}.amazonaws.com", "kms:CallerAccount": call.account}
        for action in ("DescribeKey", "CreateGrant", "GenerateDataKeyWithoutPlaintext", "Decrypt"):
            yield Need(f"kms:{action}", (resources.build_key_arn(call, name),), via)


def _find_data_repository_permissions(call: Call) -> Iterator[Need]:
    """https://docs.aws.amazon.com/fsx/latest/LustreGuide/setting-up.html#fsx-adding-permissions-s3"""
    service, name = "s3.data-source.lustre.fsx.amazonaws.com", f"AWSServiceRoleForFSxS3Access_{call.params.get('FileSystemId')}"
    role = f"arn:aws:iam::{call.account}:role/aws-service-role/{service}/{name}"
    yield Need("iam:CreateServiceLinkedRole", (role,), {"iam:AWSServiceName": service})
    yield Need("iam:AttachRolePolicy", (role,))
    yield Need("iam:PutRolePolicy", (role,))


def _find_mount_target_permissions(call: Call) -> Iterator[Need]:
    """https://docs.aws.amazon.com/efs/latest/ug/API_CreateMountTarget.html"""
    subnet = resources.build_arn(call, "ec2", f"subnet/{call.params.get('SubnetId')}")
    groups = (resources.build_arn(call, "ec2", f"security-group/{group}") for group in call.params.get("SecurityGroups", ()))
    yield Need("ec2:DescribeSubnets")
    yield Need("ec2:DescribeNetworkInterfaces")
    yield Need("ec2:CreateNetworkInterface", (resources.build_arn(call, "ec2", "network-interface/*"), subnet, *groups))


def _make_interface_finder(action: str) -> Callable[[Call], Iterator[Need]]:
    """Return a function that finds the permission required on the mount target's network interface.

    https://docs.aws.amazon.com/efs/latest/ug/API_DeleteMountTarget.html, .../API_ModifyMountTargetSecurityGroups.html,
    .../API_DescribeMountTargetSecurityGroups.html
    """

    def find_interface_permission(call: Call) -> Iterator[Need]:
        target = call.backend.mount_targets_by_id.get(call.params.get("MountTargetId", ""))
        interface = getattr(target, "network_interface_id", None)
        yield Need(action, (resources.build_arn(call, "ec2", f"network-interface/{interface}") if interface else None,))

    return find_interface_permission


_FINDERS: dict[str, Callable[[Call], Iterator[Need]]] = {
    "autoscaling.CreateAutoScalingGroup": _find_scaling_group_permissions,
    "autoscaling.PutLifecycleHook": _find_lifecycle_hook_permissions,
    "autoscaling.UpdateAutoScalingGroup": _find_scaling_group_permissions,
    "ec2.AssociateIamInstanceProfile": lambda call: _find_pass_profile_permission(call, call.params),
    "ec2.CreateFlowLogs": _find_flow_log_permissions,
    "ec2.CreateVpcEndpoint": _find_vpc_endpoint_permissions,
    "ec2.RunInstances": _find_run_instances_permissions,
    "efs.CreateFileSystem": _find_efs_permissions,
    "fsx.CreateDataRepositoryAssociation": _find_data_repository_permissions,
    "fsx.CreateFileSystem": _find_fsx_permissions,
    "efs.CreateMountTarget": _find_mount_target_permissions,
    "efs.DeleteMountTarget": _make_interface_finder("ec2:DeleteNetworkInterface"),
    "efs.DescribeMountTargetSecurityGroups": _make_interface_finder("ec2:DescribeNetworkInterfaceAttribute"),
    "efs.ModifyMountTargetSecurityGroups": _make_interface_finder("ec2:ModifyNetworkInterfaceAttribute"),
    "eks.AssociateEncryptionConfig": _find_encryption_permissions,
    "eks.CreateAddon": _find_addon_permissions,
    "eks.CreateCluster": _find_cluster_permissions,
    "eks.CreateNodegroup": _find_node_group_permissions,
    "eks.CreatePodIdentityAssociation": _find_pod_identity_permissions,
    "eks.UpdateAddon": _find_addon_permissions,
    "eks.UpdateNodegroupVersion": _find_node_template_permissions,
    "eks.UpdatePodIdentityAssociation": _find_pod_identity_permissions,
    "iam.AddRoleToInstanceProfile": _find_add_role_permissions,
    "sts.AssumeRole": _find_session_tag_permissions,
}
