"""Permissions that `up` and `destroy` of a stack need. Pure.

The actions are the subset of docs/iam that this stack's resources need. `tests/pure/test_plan_permissions.py` compares
the actions with the calls that the local cloud recorded. The actions do not include reads for the checks before `up`:
if a read is denied, the result of its check is unknown.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from infra.facts.model import Facts
from infra.naming import STACK_TAG
from infra.plan.block_clock import schedule
from infra.plan.placement import wants_placement_group
from infra.settings.stack import Settings


@dataclass(frozen=True)
class Need:
    """Actions on one resource, with the values that condition keys have when AWS authorizes the requests."""

    actions: tuple[str, ...]
    resource: str = "*"
    context: Mapping[str, str] = field(default_factory=dict)


EVERY_STACK: Final = (
    *("ec2:AuthorizeSecurityGroupEgress", "ec2:AuthorizeSecurityGroupIngress", "ec2:CreateLaunchTemplate"),
    *("ec2:CreateSecurityGroup", "ec2:CreateTags", "ec2:DeleteLaunchTemplate", "ec2:DeleteSecurityGroup", "ec2:RunInstances"),
    *("ec2:RevokeSecurityGroupEgress", "ec2:RevokeSecurityGroupIngress", "kms:CreateAlias", "kms:CreateKey", "kms:DeleteAlias"),
    *("kms:EnableKeyRotation", "kms:PutKeyPolicy", "kms:ScheduleKeyDeletion", "kms:TagResource"),
    *("ec2:DescribeLaunchTemplateVersions", "ec2:DescribeLaunchTemplates", "ec2:DescribeRouteTables"),
    *("ec2:DescribeSecurityGroupRules", "ec2:DescribeSecurityGroups", "ec2:DescribeSubnets", "ec2:DescribeVpcAttribute"),
    *("ec2:DescribeVpcs", "kms:DescribeKey", "kms:GetKeyPolicy", "kms:GetKeyRotationStatus", "kms:ListAliases"),
    *("ec2:DescribeNetworkInterfaces", "kms:ListResourceTags"),
)
ROLES: Final = (
    *("iam:AttachRolePolicy", "iam:CreateRole", "iam:DeleteRole", "iam:DeleteRolePolicy", "iam:DetachRolePolicy"),
    *("iam:GetRole", "iam:GetRolePolicy", "iam:ListAttachedRolePolicies", "iam:ListInstanceProfilesForRole"),
    *("iam:ListRolePolicies", "iam:PutRolePolicy", "iam:TagRole"),
)
BUCKET: Final = (
    *("s3:CreateBucket", "s3:DeleteBucket", "s3:DeleteBucketPolicy", "s3:PutBucketOwnershipControls", "s3:PutBucketPolicy"),
    *("s3:PutBucketPublicAccessBlock", "s3:PutEncryptionConfiguration", "s3:PutLifecycleConfiguration", "s3:TagResource"),
    *("s3:GetBucketLocation", "s3:GetBucketObjectLockConfiguration", "s3:GetBucketOwnershipControls", "s3:GetBucketPolicy"),
    *("s3:GetBucketPublicAccessBlock", "s3:GetEncryptionConfiguration", "s3:GetLifecycleConfiguration"),
    *("s3:ListBucket", "s3:ListBucketVersions", "s3:ListTagsForResource"),
)
OBJECTS: Final = ("s3:DeleteObject", "s3:DeleteObjectVersion")
"""`destroy` needs these to empty the bucket."""
LOG_GROUPS: Final = (
    *("logs:CreateLogGroup", "logs:DeleteLogGroup", "logs:DescribeLogGroups", "logs:ListTagsForResource"),
    *("logs:PutRetentionPolicy", "logs:TagResource"),
)
NEW_VPC: Final = (
    *("ec2:AssociateRouteTable", "ec2:CreateFlowLogs", "ec2:CreateRouteTable", "ec2:CreateSubnet", "ec2:CreateVpc"),
    *("ec2:CreateVpcEndpoint", "ec2:DeleteFlowLogs", "ec2:DeleteRouteTable", "ec2:DeleteSubnet", "ec2:DeleteVpc"),
    *("ec2:DeleteVpcEndpoints", "ec2:DescribeFlowLogs", "ec2:DescribeNetworkAcls", "ec2:DescribePrefixLists"),
    *("ec2:DescribeVpcEndpoints", "ec2:DisassociateRouteTable", "ec2:ModifyVpcAttribute"),
)
ADDRESS: Final = (
    *("ec2:AllocateAddress", "ec2:DescribeAddresses", "ec2:DescribeAddressesAttribute", "ec2:DisassociateAddress"),
    "ec2:ReleaseAddress",
)
INTERNET: Final = (
    *ADDRESS,
    *("ec2:AttachInternetGateway", "ec2:CreateInternetGateway", "ec2:CreateNatGateway"),
    *("ec2:CreateRoute", "ec2:DeleteInternetGateway", "ec2:DeleteNatGateway", "ec2:DeleteRoute", "ec2:DetachInternetGateway"),
    *("ec2:DescribeInternetGateways", "ec2:DescribeNatGateways"),
)
NEW_FILE_SYSTEM: Final = (
    *("ec2:CreateNetworkInterface", "ec2:DeleteNetworkInterface", "elasticfilesystem:CreateFileSystem"),
    *("elasticfilesystem:CreateMountTarget", "elasticfilesystem:DeleteFileSystem", "elasticfilesystem:DeleteFileSystemPolicy"),
    *("elasticfilesystem:DeleteMountTarget", "elasticfilesystem:DescribeFileSystemPolicy"),
    *("elasticfilesystem:DescribeFileSystems", "elasticfilesystem:DescribeLifecycleConfiguration"),
    *("elasticfilesystem:DescribeMountTargetSecurityGroups", "elasticfilesystem:DescribeMountTargets"),
    *("elasticfilesystem:PutFileSystemPolicy", "ec2:DescribeNetworkInterfaceAttribute"),
)
ACCESS_POINT: Final = (
    *("elasticfilesystem:CreateAccessPoint", "elasticfilesystem:DeleteAccessPoint", "elasticfilesystem:DescribeAccessPoints"),
    "elasticfilesystem:TagResource",
)
LUSTRE: Final = (
    *("fsx:CreateFileSystem", "fsx:DeleteFileSystem", "fsx:DescribeFileSystems", "fsx:TagResource"),
    "ec2:GetSecurityGroupsForVpc",
)
LINKED_BUCKET: Final = (
    *("fsx:CreateDataRepositoryAssociation", "fsx:DeleteDataRepositoryAssociation"),
    "fsx:DescribeDataRepositoryAssociations",
)
ROLE_OF_LINK: Final = ("iam:AttachRolePolicy", "iam:CreateServiceLinkedRole", "iam:PutRolePolicy")
"""FSx creates a role for each linked file system, with the permissions of the caller:
https://docs.aws.amazon.com/fsx/latest/LustreGuide/setting-up.html#fsx-adding-permissions-s3"""
KEY_OF_SECRETS: Final = ("kms:CreateGrant", "kms:DescribeKey")
KEY_OF_FILES: Final = ("kms:CreateGrant", "kms:Decrypt", "kms:DescribeKey", "kms:GenerateDataKeyWithoutPlaintext")
"""https://docs.aws.amazon.com/efs/latest/ug/EFSKMS.html"""
PLACEMENT: Final = ("ec2:CreatePlacementGroup", "ec2:DeletePlacementGroup", "ec2:DescribePlacementGroups")
SCHEDULES: Final = (
    *("autoscaling:DeleteScheduledAction", "autoscaling:DescribeScheduledActions", "autoscaling:PutScheduledUpdateGroupAction"),
)
CLUSTER: Final = (
    *("eks:AssociateAccessPolicy", "eks:CreateAccessEntry", "eks:CreateAddon", "eks:CreateCluster", "eks:CreateNodegroup"),
    *("eks:CreatePodIdentityAssociation", "eks:DeleteCluster", "eks:DescribeCluster"),
    "eks:TagResource",
)
NODE_GROUP: Final = ("eks:DeleteNodegroup", "eks:DescribeNodegroup")
ADDON: Final = ("eks:DeleteAddon", "eks:DescribeAddon")
ACCESS_ENTRY: Final = (
    *("eks:DeleteAccessEntry", "eks:DescribeAccessEntry", "eks:DisassociateAccessPolicy", "eks:ListAssociatedAccessPolicies"),
)
POD_IDENTITY: Final = ("eks:DeletePodIdentityAssociation", "eks:DescribePodIdentityAssociation")
GROUP_TAGS: Final = ("autoscaling:CreateOrUpdateTags", "autoscaling:DeleteTags", "autoscaling:DescribeTags")
WORKERS: Final = (
    *("autoscaling:CreateAutoScalingGroup", "autoscaling:DeleteAutoScalingGroup", "autoscaling:DescribeAutoScalingGroups"),
    *("autoscaling:DescribeLifecycleHooks", "autoscaling:PutLifecycleHook", "autoscaling:UpdateAutoScalingGroup"),
)
HEAD_NODE: Final = (
    *("ec2:DescribeInstanceAttribute", "ec2:DescribeInstanceCreditSpecifications", "ec2:DescribeInstanceTypes"),
    *("ec2:DescribeInstances", "ec2:DescribeTags", "ec2:DescribeVolumes", "ec2:MonitorInstances", "ec2:TerminateInstances"),
)
PROFILES: Final = (
    *("iam:AddRoleToInstanceProfile", "iam:CreateInstanceProfile", "iam:DeleteInstanceProfile"),
    *("iam:GetInstanceProfile", "iam:RemoveRoleFromInstanceProfile", "iam:TagInstanceProfile"),
)
REPOSITORIES: Final = (
    *("ecr:CreateRepository", "ecr:DeleteLifecyclePolicy", "ecr:DeleteRepository", "ecr:DescribeRepositories"),
    *("ecr:GetLifecyclePolicy", "ecr:ListTagsForResource", "ecr:PutLifecyclePolicy", "ecr:TagResource"),
)

UNKNOWN_KEY: Final = "00000000-0000-0000-0000-000000000000"


def needs(settings: Settings, facts: Facts) -> tuple[Need, ...]:
    """Return the permissions that the caller needs."""
    account, partition, cluster = facts.caller.account, facts.partition, settings.cluster_name
    region = settings.region
    tags = {f"aws:RequestTag/{STACK_TAG}": settings.stack, f"aws:ResourceTag/{STACK_TAG}": settings.stack}
    context = {**tags, "aws:RequestedRegion": region}
    role = f"arn:{partition}:iam::{account}:role/{cluster}-role"
    found = [
        Need(tuple(_on_everything(settings, facts)), "*", context),
        Need(ROLES, role, context),
        Need(BUCKET, f"arn:{partition}:s3:::{cluster}-keys", context),
        Need(OBJECTS, f"arn:{partition}:s3:::{cluster}-keys/key", context),
        Need(LOG_GROUPS, f"arn:{partition}:logs:{region}:{account}:log-group:/gpumpi/{settings.stack}", context),
    ]
    found += [Need(("iam:PassRole",), role, {**context, "iam:PassedToService": service}) for service in _services(settings)]
    eks = f"arn:{partition}:eks:{region}:{account}"
    if settings.is_eks:
        found += [
            Need(CLUSTER, f"{eks}:cluster/{cluster}", context),
            Need(NODE_GROUP, f"{eks}:nodegroup/{cluster}/pool/0", context),
            Need(ADDON, f"{eks}:addon/{cluster}/coredns/0", context),
            Need(ACCESS_ENTRY, f"{eks}:access-entry/{cluster}/role/{account}/admin/0", context),
            Need(POD_IDENTITY, f"{eks}:podidentityassociation/{cluster}/0", context),
        ]
    else:
        found.append(Need(PROFILES, f"arn:{partition}:iam::{account}:instance-profile/{cluster}-profile", context))
    found += [*_keys(settings, facts, context), *_linked_bucket(settings, facts, context)]
    if settings.platform.image_repositories:
        found.append(Need(REPOSITORIES, f"arn:{partition}:ecr:{region}:{account}:repository/{cluster}/mpi", context))
    return tuple(found)


def _keys(settings: Settings, facts: Facts, context: Mapping[str, str]) -> Iterator[Need]:
    """Yield the permissions on the stack's keys, which AWS uses on behalf of the caller."""
    key = f"arn:{facts.partition}:kms:{settings.region}:{facts.caller.account}:key/{UNKNOWN_KEY}"
    called = {**context, "kms:CallerAccount": facts.caller.account}
    efs, lustre = settings.storage.efs, settings.storage.lustre
    if settings.is_eks:
        yield Need(KEY_OF_SECRETS, key, called)
    if efs != "none" and not efs.is_existing:
        yield Need(KEY_OF_FILES, key, {**called, "kms:ViaService": f"elasticfilesystem.{settings.region}.amazonaws.com"})
    if lustre is not None and not lustre.is_existing and lustre.is_persistent:
        yield Need(KEY_OF_FILES, key, {**called, "kms:ViaService": f"fsx.{settings.region}.amazonaws.com"})


def _linked_bucket(settings: Settings, facts: Facts, context: Mapping[str, str]) -> Iterator[Need]:
    lustre = settings.storage.lustre
    if lustre is None or lustre.is_existing or lustre.data_repository is None:
        return
    service = "s3.data-source.lustre.fsx.amazonaws.com"
    role = f"arn:{facts.partition}:iam::{facts.caller.account}:role/aws-service-role/{service}/AWSServiceRoleForFSxS3Access_fs"
    yield Need(ROLE_OF_LINK, role, {**context, "iam:AWSServiceName": service})


def _on_everything(settings: Settings, facts: Facts) -> Iterator[str]:
    """Yield the actions on resources whose names are unknown until they are created."""
    network, efs, lustre = settings.network, settings.storage.efs, settings.storage.lustre
    yield from EVERY_STACK
    if not network.is_existing:
        yield from NEW_VPC
        if network.nat != "none":
            yield from INTERNET
        if network.has_interface_endpoints:
            yield "route53:AssociateVPCWithHostedZone"
    if efs != "none":
        yield from ACCESS_POINT
        if not efs.is_existing:
            yield from NEW_FILE_SYSTEM
            yield from ("elasticfilesystem:DescribeBackupPolicy", "elasticfilesystem:PutBackupPolicy") if efs.backup else ()
            yield from ("elasticfilesystem:PutLifecycleConfiguration",) if efs.infrequent_access_after_days else ()
    if lustre is not None and not lustre.is_existing:
        yield from LUSTRE
        yield from LINKED_BUCKET if lustre.data_repository is not None else ()
    if any(wants_placement_group(pool, facts) for pool in settings.pools):
        yield from PLACEMENT
    if settings.is_eks:
        yield from GROUP_TAGS
        yield from SCHEDULES if any(schedule(pool, facts) for pool in settings.pools) else ()
    else:
        yield from (*WORKERS, *HEAD_NODE)
        if settings.ec2.ssh.cidrs:
            yield from (*ADDRESS, "ec2:AssociateAddress")


def _services(settings: Settings) -> Sequence[str]:
    """Return the services to which the stack passes roles."""
    flow_logs = () if settings.network.is_existing else ("vpc-flow-logs.amazonaws.com",)
    return (*flow_logs, *(("eks.amazonaws.com", "pods.eks.amazonaws.com") if settings.is_eks else ("ec2.amazonaws.com",)))
