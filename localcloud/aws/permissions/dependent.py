"""Dependent actions: additional actions for which AWS requires the caller of an operation to have permission.

https://docs.aws.amazon.com/service-authorization/latest/reference/reference_policies_actions-resources-contextkeys.html
lists most of them per action. Sources for the others are given below. A request that needs a service-linked role
requires permission to create the role, even if the role exists: policies must also work in a new account.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from localcloud.aws import service_linked_roles
from localcloud.aws.call import Call
from localcloud.aws.permissions import actions, resources
from localcloud.aws.permissions.need import Need

_TAGGING: Mapping[str, tuple[str, str]] = {
    # Operation that accepts tags -> action required for tagging, and the ARN of the created resource.
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
    # Not verified: EKS documents eks:TagResource only for existing resources (2026-11-23), but other services check it here.
    "eks.CreateCluster": ("eks:TagResource", "cluster/{name}"),
    "eks.CreateNodegroup": ("eks:TagResource", "nodegroup/{clusterName}/{nodegroupName}/*"),
    "eks.CreateAddon": ("eks:TagResource", "addon/{clusterName}/{addonName}/*"),
    "eks.CreateAccessEntry": ("eks:TagResource", "access-entry/{clusterName}/*"),
    "eks.CreatePodIdentityAssociation": ("eks:TagResource", "podidentityassociation/{clusterName}/*"),
}


def find_dependent_needs(call: Call) -> Iterator[Need]:
    yield from _tags(call)
    if call.service == "ec2" and call.operation != "RunInstances":
        yield from _ec2_tags(call, call.params.get("TagSpecifications", ()), call.operation)
    find = _FINDERS.get(f"{call.service}.{call.operation}")
    if find is not None:
        yield from find(call)


# --- tags --------------------------------------------------------------------------------------------------------------


def _tags(call: Call) -> Iterator[Need]:
    tagging = _TAGGING.get(f"{call.service}.{call.operation}")
    if tagging is None or not (call.params.get("Tags") or call.params.get("tags")):
        return
    action, path = tagging
    prefix = action.split(":")[0]
    keys = {f"{prefix}:CreateAction": call.operation}
    named = (
        resources.find_arns(call, actions.name_of(call))
        if not path
        else (resources.arn(call, prefix, path.format_map(defaultdict(lambda: "*", call.params))),)
    )
    yield Need(action, named, keys)


def _ec2_tags(call: Call, specifications: Any, operation: str) -> Iterator[Need]:
    """https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/supported-iam-actions-tagging.html"""
    kinds = sorted({specification["ResourceType"] for specification in specifications if specification.get("Tags")})
    if kinds:
        arns = tuple(resources.arn(call, "ec2", f"{kind}/*") for kind in kinds)
        yield Need("ec2:CreateTags", arns, {"ec2:CreateAction": operation})


# --- roles -------------------------------------------------------------------------------------------------------------


def _pass_role(call: Call, role: str | None, service: str) -> Iterator[Need]:
    """https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_use_passrole.html"""
    if role:
        arn = role if role.startswith("arn:") else resources.role(call, role)
        yield Need("iam:PassRole", (arn,), {"iam:PassedToService": service})


def _pass_profile(call: Call, data: Mapping[str, Any]) -> Iterator[Need]:
    profile = data.get("IamInstanceProfile") or {}
    name = profile.get("Name") or str(profile.get("Arn", "")).rsplit("/", 1)[-1]
    profiles = (candidate for candidate in call.backend_of("iam").instance_profiles.values() if candidate.name == name)
    for role in (role for instance_profile in profiles for role in instance_profile.roles):
        yield from _pass_role(call, role.arn, "ec2.amazonaws.com")


def _service_linked_role(call: Call, service: str, error: tuple[str, str] | None = None) -> Need:
    """https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_create-service-linked-role.html"""
    role = f"arn:aws:iam::{call.account}:role{service_linked_roles.path(service)}{service_linked_roles.NAMES[service]}"
    return Need("iam:CreateServiceLinkedRole", (role,), {"iam:AWSServiceName": service}, error)


def _add_to_profile(call: Call) -> Iterator[Need]:
    yield from _pass_role(call, call.params.get("RoleName"), "ec2.amazonaws.com")


def _session(call: Call) -> Iterator[Need]:
    """https://docs.aws.amazon.com/IAM/latest/UserGuide/id_session-tags.html"""
    if call.params.get("Tags"):
        yield Need("sts:TagSession", (call.params.get("RoleArn"),))


# --- EC2 and Auto Scaling ----------------------------------------------------------------------------------------------


_NO_SPOT_ROLE = (
    "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
    "The provided credentials do not have permission to create the service-linked role for EC2 Spot Instances.",
)
"""kubernetes/kops#16475"""


def _run_instances(call: Call) -> Iterator[Need]:
    data = resources.launch_data(call, call.params)
    yield from _find_launch_needs(call, data)
    if data.get("InstanceMarketOptions", {}).get("MarketType") == "spot":
        yield _service_linked_role(call, service_linked_roles.SPOT, _NO_SPOT_ROLE)


def _find_launch_needs(call: Call, data: Mapping[str, Any]) -> Iterator[Need]:
    yield from _pass_profile(call, data)
    yield from _ec2_tags(call, data.get("TagSpecifications", ()), "RunInstances")


def _flow_logs(call: Call) -> Iterator[Need]:
    yield from _pass_role(call, call.params.get("DeliverLogsPermissionArn"), "vpc-flow-logs.amazonaws.com")


def _endpoint(call: Call) -> Iterator[Need]:
    """https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html#amazonec2-CreateVpcEndpoint"""
    if call.params.get("VpcEndpointType") == "Interface" and call.params.get("PrivateDnsEnabled", True):
        yield Need("route53:AssociateVPCWithHostedZone", (None,))


def _group(call: Call) -> Iterator[Need]:
    """https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-api-permissions.html"""
    if call.operation == "CreateAutoScalingGroup":
        yield _service_linked_role(call, "autoscaling.amazonaws.com")
    mixed = call.params.get("MixedInstancesPolicy") or {}
    specification = call.params.get("LaunchTemplate") or (mixed.get("LaunchTemplate") or {}).get("LaunchTemplateSpecification")
    if not specification:
        return
    data = resources.launch_data(call, {"LaunchTemplate": specification})
    named = specification.get("LaunchTemplateId") or specification.get("LaunchTemplateName")
    # https://docs.aws.amazon.com/autoscaling/ec2/userguide/ts-as-launch-template.html
    error = ("ValidationError", f"You are not authorized to use launch template: {named}")
    yield Need("ec2:RunInstances", resources.find_launch_arns(call, data), error=error)
    yield from _find_launch_needs(call, data)


def _hook(call: Call) -> Iterator[Need]:
    yield from _pass_role(call, call.params.get("RoleARN"), "autoscaling.amazonaws.com")


# --- EKS ---------------------------------------------------------------------------------------------------------------


def _cluster(call: Call) -> Iterator[Need]:
    """https://docs.aws.amazon.com/eks/latest/userguide/using-service-linked-roles-eks.html, .../enable-kms.html"""
    yield from _pass_role(call, call.params.get("roleArn"), "eks.amazonaws.com")
    yield _service_linked_role(call, "eks.amazonaws.com")
    yield from _encryption(call)


def _encryption(call: Call) -> Iterator[Need]:
    for configuration in call.params.get("encryptionConfig", ()):
        if name := configuration.get("provider", {}).get("keyArn"):
            for action in ("kms:DescribeKey", "kms:CreateGrant"):
                yield Need(action, (resources.key(call, name),), {"kms:CallerAccount": call.account})


def _node_group(call: Call) -> Iterator[Need]:
    """https://docs.aws.amazon.com/step-functions/latest/dg/eks-iam.html lists the permissions that EKS checks before it
    creates a node group.
    https://github.com/scylladb/scylla-cluster-tests/issues/12172 shows AWS's error for a launch template.
    """
    role = call.params.get("nodeRole")
    yield Need("ec2:DescribeSubnets")
    yield from _pass_role(call, role, "eks.amazonaws.com")
    for action in ("iam:GetRole", "iam:ListAttachedRolePolicies"):
        yield Need(action, (role,))
    yield _service_linked_role(call, "eks-nodegroup.amazonaws.com")
    yield from _node_template(call)


def _node_template(call: Call) -> Iterator[Need]:
    template = call.params.get("launchTemplate") or {}
    if not template:
        return
    names = {"id": "LaunchTemplateId", "name": "LaunchTemplateName", "version": "Version"}
    specification = {ours: template[key] for key, ours in names.items() if template.get(key)}
    data = resources.launch_data(call, {"LaunchTemplate": specification})
    error = ("InvalidRequestException", "You are not authorized to launch instances with this launch template.")
    arns = resources.find_launch_arns(call, {**data, "SubnetIds": call.params.get("subnets")})
    yield Need("ec2:RunInstances", arns, error=error)
    for need in _ec2_tags(call, data.get("TagSpecifications", ()), "RunInstances"):
        yield Need(need.action, need.resources, need.keys, error)


def _pod_identity(call: Call) -> Iterator[Need]:
    """Not verified (2026-11-23): the caller needs permission to pass the role to pods.eks.amazonaws.com."""
    associations = call.params.get("podIdentityAssociations", ())
    for role in (call.params.get("roleArn"), *(association.get("roleArn") for association in associations)):
        yield from _pass_role(call, role, "pods.eks.amazonaws.com")
        if role:
            yield Need("iam:GetRole", (role,))


def _addon(call: Call) -> Iterator[Need]:
    yield from _pass_role(call, call.params.get("serviceAccountRoleArn"), "eks.amazonaws.com")
    yield from _pod_identity(call)


# --- KMS and EFS -------------------------------------------------------------------------------------------------------


def _put_key_policy(call: Call) -> Iterator[Need]:
    """https://docs.aws.amazon.com/service-authorization/latest/reference/list_awskeymanagementservice.html"""
    if call.params.get("Policy"):
        yield Need("kms:PutKeyPolicy", (resources.arn(call, "kms", "key/*"),))


def _file_system(call: Call) -> Iterator[Need]:
    """https://docs.aws.amazon.com/efs/latest/ug/EFSKMS.html lists the required permissions on the key."""
    yield from _find_file_system_needs(call, "elasticfilesystem")


def _lustre(call: Call) -> Iterator[Need]:
    """https://docs.aws.amazon.com/fsx/latest/LustreGuide/using-service-linked-roles.html, .../encryption-at-rest.html.

    Not verified: with ec2:GetSecurityGroupsForVpc, FSx validates the security groups (.../security-iam-awsmanpol.html).
    """
    yield Need("ec2:GetSecurityGroupsForVpc", (resources.arn(call, "ec2", "vpc/*"),))
    yield from _find_file_system_needs(call, "fsx")


def _find_file_system_needs(call: Call, service: str) -> Iterator[Need]:
    yield _service_linked_role(call, f"{service}.amazonaws.com")
    if name := call.params.get("KmsKeyId"):
        via = {"kms:ViaService": f"{service}.{call.region}.amazonaws.com", "kms:CallerAccount": call.account}
        for action in ("DescribeKey", "CreateGrant", "GenerateDataKeyWithoutPlaintext", "Decrypt"):
            yield Need(f"kms:{action}", (resources.key(call, name),), via)


def _data_repository(call: Call) -> Iterator[Need]:
    """https://docs.aws.amazon.com/fsx/latest/LustreGuide/setting-up.html#fsx-adding-permissions-s3"""
    service, name = "s3.data-source.lustre.fsx.amazonaws.com", f"AWSServiceRoleForFSxS3Access_{call.params.get('FileSystemId')}"
    role = f"arn:aws:iam::{call.account}:role/aws-service-role/{service}/{name}"
    yield Need("iam:CreateServiceLinkedRole", (role,), {"iam:AWSServiceName": service})
    yield Need("iam:AttachRolePolicy", (role,))
    yield Need("iam:PutRolePolicy", (role,))


def _mount_target(call: Call) -> Iterator[Need]:
    """https://docs.aws.amazon.com/efs/latest/ug/API_CreateMountTarget.html"""
    subnet = resources.arn(call, "ec2", f"subnet/{call.params.get('SubnetId')}")
    groups = (resources.arn(call, "ec2", f"security-group/{group}") for group in call.params.get("SecurityGroups", ()))
    yield Need("ec2:DescribeSubnets")
    yield Need("ec2:DescribeNetworkInterfaces")
    yield Need("ec2:CreateNetworkInterface", (resources.arn(call, "ec2", "network-interface/*"), subnet, *groups))


def _make_interface_finder(action: str) -> Callable[[Call], Iterator[Need]]:
    """Return a function that finds the permission required on the mount target's network interface.

    https://docs.aws.amazon.com/efs/latest/ug/API_DeleteMountTarget.html, .../API_ModifyMountTargetSecurityGroups.html,
    .../API_DescribeMountTargetSecurityGroups.html
    """

    def find(call: Call) -> Iterator[Need]:
        target = call.backend.mount_targets_by_id.get(call.params.get("MountTargetId", ""))
        interface = getattr(target, "network_interface_id", None)
        yield Need(action, (resources.arn(call, "ec2", f"network-interface/{interface}") if interface else None,))

    return find


_FINDERS: dict[str, Callable[[Call], Iterator[Need]]] = {
    "autoscaling.CreateAutoScalingGroup": _group,
    "autoscaling.PutLifecycleHook": _hook,
    "autoscaling.UpdateAutoScalingGroup": _group,
    "ec2.AssociateIamInstanceProfile": lambda call: _pass_profile(call, call.params),
    "ec2.CreateFlowLogs": _flow_logs,
    "ec2.CreateVpcEndpoint": _endpoint,
    "ec2.RunInstances": _run_instances,
    "efs.CreateFileSystem": _file_system,
    "fsx.CreateDataRepositoryAssociation": _data_repository,
    "fsx.CreateFileSystem": _lustre,
    "efs.CreateMountTarget": _mount_target,
    "efs.DeleteMountTarget": _make_interface_finder("ec2:DeleteNetworkInterface"),
    "efs.DescribeMountTargetSecurityGroups": _make_interface_finder("ec2:DescribeNetworkInterfaceAttribute"),
    "efs.ModifyMountTargetSecurityGroups": _make_interface_finder("ec2:ModifyNetworkInterfaceAttribute"),
    "eks.AssociateEncryptionConfig": _encryption,
    "eks.CreateAddon": _addon,
    "eks.CreateCluster": _cluster,
    "eks.CreateNodegroup": _node_group,
    "eks.CreatePodIdentityAssociation": _pod_identity,
    "eks.UpdateAddon": _addon,
    "eks.UpdateNodegroupVersion": _node_template,
    "eks.UpdatePodIdentityAssociation": _pod_identity,
    "iam.AddRoleToInstanceProfile": _add_to_profile,
    "sts.AssumeRole": _session,
    "kms.CreateKey": _put_key_policy,
}
