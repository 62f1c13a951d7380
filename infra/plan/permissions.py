"""Permissions that `up` and `destroy` of a stack need. Pure.

The actions are those in docs/iam that this stack's resources need. `tests/pure/test_plan_permissions.py` compares them
with the calls that the local cloud recorded.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from infra.facts.model import Facts
from infra.naming import STACK_TAG
from infra.plan.placement import wants_placement_group
from infra.settings.stack import Settings


@dataclass(frozen=True)
class Need:
    """Actions on one resource, with the values of the condition keys in AWS's requests."""

    actions: tuple[str, ...]
    resource: str = "*"
    context: Mapping[str, str] = field(default_factory=dict)


EVERY_STACK: Final = (
    *("ec2:AuthorizeSecurityGroupEgress", "ec2:AuthorizeSecurityGroupIngress", "ec2:CreateLaunchTemplate"),
    *("ec2:CreateSecurityGroup", "ec2:CreateTags", "ec2:DeleteLaunchTemplate", "ec2:DeleteSecurityGroup", "ec2:RunInstances"),
    *("ec2:RevokeSecurityGroupEgress", "ec2:RevokeSecurityGroupIngress", "kms:CreateAlias", "kms:CreateKey", "kms:DeleteAlias"),
    *("kms:EnableKeyRotation", "kms:PutKeyPolicy", "kms:ScheduleKeyDeletion", "kms:TagResource"),
)
ROLES: Final = (
    *("iam:AttachRolePolicy", "iam:CreateRole", "iam:DeleteRole", "iam:DeleteRolePolicy", "iam:DetachRolePolicy"),
    *("iam:PutRolePolicy", "iam:TagRole"),
)
BUCKET: Final = (
    *("s3:CreateBucket", "s3:DeleteBucket", "s3:DeleteBucketPolicy", "s3:PutBucketOwnershipControls", "s3:PutBucketPolicy"),
    *("s3:PutBucketPublicAccessBlock", "s3:PutBucketTagging", "s3:PutEncryptionConfiguration", "s3:PutLifecycleConfiguration"),
)
LOG_GROUPS: Final = ("logs:CreateLogGroup", "logs:DeleteLogGroup", "logs:PutRetentionPolicy", "logs:TagResource")
NEW_VPC: Final = (
    *("ec2:AssociateRouteTable", "ec2:CreateFlowLogs", "ec2:CreateRouteTable", "ec2:CreateSubnet", "ec2:CreateVpc"),
    *("ec2:CreateVpcEndpoint", "ec2:DeleteFlowLogs", "ec2:DeleteRouteTable", "ec2:DeleteSubnet", "ec2:DeleteVpc"),
    *("ec2:DeleteVpcEndpoints", "ec2:DisassociateRouteTable", "ec2:ModifyVpcAttribute"),
)
INTERNET: Final = (
    *("ec2:AllocateAddress", "ec2:AttachInternetGateway", "ec2:CreateInternetGateway", "ec2:CreateNatGateway"),
    *("ec2:CreateRoute", "ec2:DeleteInternetGateway", "ec2:DeleteNatGateway", "ec2:DeleteRoute", "ec2:DetachInternetGateway"),
    *("ec2:DisassociateAddress", "ec2:ReleaseAddress"),
)
NEW_FILE_SYSTEM: Final = (
    *("ec2:CreateNetworkInterface", "ec2:DeleteNetworkInterface", "elasticfilesystem:CreateFileSystem"),
    *("elasticfilesystem:CreateMountTarget", "elasticfilesystem:DeleteFileSystem", "elasticfilesystem:DeleteFileSystemPolicy"),
    *("elasticfilesystem:DeleteMountTarget", "elasticfilesystem:PutFileSystemPolicy"),
)
ACCESS_POINT: Final = (
    "elasticfilesystem:CreateAccessPoint",
    "elasticfilesystem:DeleteAccessPoint",
    "elasticfilesystem:TagResource",
)
PLACEMENT: Final = ("ec2:CreatePlacementGroup", "ec2:DeletePlacementGroup")
CLUSTER: Final = (
    *("eks:AssociateAccessPolicy", "eks:CreateAccessEntry", "eks:CreateAddon", "eks:CreateCluster", "eks:CreateNodegroup"),
    *("eks:CreatePodIdentityAssociation", "eks:DeleteCluster", "eks:TagResource"),
)
NODE_GROUP: Final = ("eks:DeleteNodegroup",)
ADDON: Final = ("eks:DeleteAddon",)
ACCESS_ENTRY: Final = ("eks:DeleteAccessEntry", "eks:DisassociateAccessPolicy")
POD_IDENTITY: Final = ("eks:DeletePodIdentityAssociation",)
GROUP_TAGS: Final = ("autoscaling:CreateOrUpdateTags", "autoscaling:DeleteTags")
WORKERS: Final = ("autoscaling:CreateAutoScalingGroup", "autoscaling:DeleteAutoScalingGroup", "ec2:TerminateInstances")
PROFILES: Final = (
    *("iam:AddRoleToInstanceProfile", "iam:CreateInstanceProfile", "iam:DeleteInstanceProfile"),
    *("iam:RemoveRoleFromInstanceProfile", "iam:TagInstanceProfile"),
)
REPOSITORIES: Final = (
    *("ecr:CreateRepository", "ecr:DeleteLifecyclePolicy", "ecr:DeleteRepository", "ecr:PutLifecyclePolicy", "ecr:TagResource"),
)


def needs(settings: Settings, facts: Facts) -> tuple[Need, ...]:
    """Return what the caller must be allowed to do."""
    account, partition, cluster = facts.caller.account, facts.partition, settings.cluster_name
    region = settings.region
    tags = {f"aws:RequestTag/{STACK_TAG}": settings.stack, f"aws:ResourceTag/{STACK_TAG}": settings.stack}
    context = {**tags, "aws:RequestedRegion": region}
    role = f"arn:{partition}:iam::{account}:role/{cluster}-role"
    found = [
        Need(tuple(_on_everything(settings, facts)), "*", context),
        Need(ROLES, role, context),
        Need(BUCKET, f"arn:{partition}:s3:::{cluster}-keys", context),
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
    if settings.platform.image_repositories:
        found.append(Need(REPOSITORIES, f"arn:{partition}:ecr:{region}:{account}:repository/{cluster}/mpi", context))
    return tuple(found)


def _on_everything(settings: Settings, facts: Facts) -> Iterator[str]:
    """Yield the actions on resources whose names are unknown before creation."""
    network, efs = settings.network, settings.storage.efs
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
            yield from ("elasticfilesystem:PutBackupPolicy",) if efs.backup else ()
            yield from ("elasticfilesystem:PutLifecycleConfiguration",) if efs.infrequent_access_after_days else ()
    if any(wants_placement_group(pool, facts) for pool in settings.pools):
        yield from PLACEMENT
    if settings.is_eks:
        yield from GROUP_TAGS
    else:
        yield from WORKERS
        if settings.ec2.ssh.cidrs:
            yield "ec2:AssociateAddress"


def _services(settings: Settings) -> Sequence[str]:
    """Return the services to which the stack passes roles."""
    flow_logs = () if settings.network.is_existing else ("vpc-flow-logs.amazonaws.com",)
    return (*flow_logs, *(("eks.amazonaws.com", "pods.eks.amazonaws.com") if settings.is_eks else ("ec2.amazonaws.com",)))
