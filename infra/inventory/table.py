"""The table of AWS resource types that stacks create. This file contains the entries for roles, keys, log groups and
image repositories."""

from collections.abc import Mapping
from typing import Final

from infra.facts.account_limits import ROLES
from infra.facts.model import Facts
from infra.inventory import compute, network, storage
from infra.inventory.entry import Charge, Entry, count_as_one
from infra.inventory.lookups import (
    create_describe_lookup,
    create_list_lookup,
    find_image_repository,
    find_kms_key,
    find_log_group,
    find_role_policy_attachment,
)
from infra.inventory.resources import Resource
from infra.naming import COMPONENT


def _role_exists(role: Resource, facts: Facts) -> bool | None:
    """Return whether the role exists. An existing cluster may lack roles of pods and add-ons, which depend on the
    settings."""
    if not facts.existing.pools and facts.existing.cluster_version is None:
        return False
    return None if f"{COMPONENT}:PodRole" in role.parents else True


ENTRIES: Final[Mapping[str, Entry]] = {
    "aws:iam/role:Role": Entry(
        units={ROLES: count_as_one}, exists=_role_exists, lookup=create_describe_lookup("iam", "get_role", "", "RoleName=name")
    ),
    "aws:iam/rolePolicy:RolePolicy": Entry(
        lookup=create_describe_lookup("iam", "get_role_policy", "", "RoleName=role", "PolicyName=name")
    ),
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment": Entry(lookup=find_role_policy_attachment),
    "aws:iam/instanceProfile:InstanceProfile": Entry(
        passes_roles_to="ec2.amazonaws.com",
        lookup=create_describe_lookup("iam", "get_instance_profile", "", "InstanceProfileName=name"),
    ),
    "aws:kms/key:Key": Entry(charges=lambda key: (Charge("KMS keys", "keys", "kms-key-month"),), lookup=find_kms_key),
    "aws:kms/alias:Alias": Entry(
        lookup=create_list_lookup("kms", "list_aliases", "Aliases", "AliasName", same=["AliasName=name"])
    ),
    "aws:cloudwatch/logGroup:LogGroup": Entry(lookup=find_log_group),
    "aws:ecr/repository:Repository": Entry(lookup=find_image_repository),
    "aws:ecr/lifecyclePolicy:LifecyclePolicy": Entry(),
}

TABLE: Final[Mapping[str, Entry]] = {**network.ENTRIES, **storage.ENTRIES, **ENTRIES, **compute.ENTRIES}
"""Maps a resource type to its entry. `tests/program/test_every_stack.py` fails if a stack registers a type that is
not covered."""

KUBERNETES: Final = "kubernetes:"
"""Prefix of the types of Kubernetes objects. They cost nothing and need no AWS permission, and so do Pulumi's providers.
Their names are their IDs, so recovery needs no lookup."""


def is_known_resource_type(resource_type: str) -> bool:
    """Return whether the table, or the rule for Kubernetes objects, covers a resource type."""
    return resource_type in TABLE or resource_type.startswith((KUBERNETES, "pulumi:providers:"))
