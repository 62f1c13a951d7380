"""Roles, keys, log groups and image repositories."""

from functools import partial
from typing import Final

from infra.facts.account_limits import ROLES
from infra.facts.model import Facts
from infra.inventory.entry import Charge, Entry, actions, count_one
from infra.inventory.lookups import (
    find_image_repository,
    find_instance_profile,
    find_key,
    find_key_alias,
    find_log_group,
    find_role,
    find_role_policy,
    find_role_policy_attachment,
)
from infra.inventory.resources import Resource
from infra.naming import COMPONENT

iam = partial(actions, "iam")
kms = partial(actions, "kms")
logs = partial(actions, "logs")
ecr = partial(actions, "ecr")


def _has_role(role: Resource, facts: Facts) -> bool | None:
    """Return whether the role exists. An existing cluster may lack roles of pods and add-ons, which depend on the
    settings."""
    if not facts.existing.pools and facts.existing.cluster_version is None:
        return False
    return None if f"{COMPONENT}:PodRole" in role.parents else True


ENTRIES: Final = {
    "aws:iam/role:Role": Entry(
        create=iam("CreateRole TagRole"),
        read=iam("GetRole ListAttachedRolePolicies ListInstanceProfilesForRole ListRolePolicies"),
        update=iam(
            "DeleteRolePermissionsBoundary PutRolePermissionsBoundary TagRole UntagRole UpdateAssumeRolePolicy UpdateRole "
            "UpdateRoleDescription"
        ),
        delete=iam("DeleteRole"),
        units={ROLES: count_one},
        exists=_has_role,
        lookup=find_role,
    ),
    "aws:iam/rolePolicy:RolePolicy": Entry(
        create=iam("PutRolePolicy"),
        read=iam("GetRolePolicy"),
        update=iam("DeleteRolePolicy"),
        delete=iam("DeleteRolePolicy"),
        lookup=find_role_policy,
    ),
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": Entry(
        create=iam("AttachRolePolicy"),
        read=iam("ListAttachedRolePolicies"),
        update=iam("DetachRolePolicy"),
        delete=iam("DetachRolePolicy"),
        lookup=find_role_policy_attachment,
    ),
    "aws:iam/instanceProfile:InstanceProfile": Entry(
        create=iam("AddRoleToInstanceProfile CreateInstanceProfile TagInstanceProfile"),
        read=iam("GetInstanceProfile"),
        update=iam("RemoveRoleFromInstanceProfile TagInstanceProfile UntagInstanceProfile"),
        delete=iam("DeleteInstanceProfile RemoveRoleFromInstanceProfile"),
        passes_roles_to="ec2.amazonaws.com",
        lookup=find_instance_profile,
    ),
    "aws:kms/key:Key": Entry(
        create=kms("CreateKey EnableKeyRotation PutKeyPolicy TagResource"),
        read=kms("DescribeKey GetKeyPolicy GetKeyRotationStatus ListResourceTags"),
        update=kms("DisableKeyRotation TagResource UntagResource UpdateKeyDescription"),
        delete=kms("ScheduleKeyDeletion"),
        charges=lambda key: (Charge("KMS keys", "keys", "kms-key-month"),),
        lookup=find_key,
    ),
    "aws:kms/alias:Alias": Entry(
        create=kms("CreateAlias"),
        read=kms("ListAliases"),
        update=kms("UpdateAlias"),
        delete=kms("DeleteAlias"),
        lookup=find_key_alias,
    ),
    "aws:cloudwatch/logGroup:LogGroup": Entry(
        create=logs("CreateLogGroup PutRetentionPolicy TagResource"),
        read=logs("DescribeLogGroups ListTagsForResource"),
        update=logs("AssociateKmsKey DeleteRetentionPolicy DisassociateKmsKey TagResource UntagResource"),
        delete=logs("DeleteLogGroup"),
        lookup=find_log_group,
    ),
    "aws:ecr/repository:Repository": Entry(
        create=ecr("CreateRepository TagResource"),
        read=ecr("DescribeRepositories ListTagsForResource"),
        update=ecr("PutImageScanningConfiguration PutImageTagMutability TagResource UntagResource"),
        delete=ecr("DeleteRepository"),
        lookup=find_image_repository,
    ),
    "aws:ecr/lifecyclePolicy:LifecyclePolicy": Entry(
        create=ecr("PutLifecyclePolicy"),
        read=ecr("GetLifecyclePolicy"),
        update=ecr("DeleteLifecyclePolicy"),
        delete=ecr("DeleteLifecyclePolicy"),
    ),
}
