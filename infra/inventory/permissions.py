"""Permissions that `up` and `destroy` of a stack need: the actions of the registered resource types.

The actions do not include reads for the checks before `up`: if a read is denied, the result of its check is unknown.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import yaml

from infra.facts.model import Facts
from infra.inventory.resources import Inventory, Resource, list_resources
from infra.inventory.storage import DATA_REPOSITORY
from infra.inventory.table import TABLE
from infra.naming import STACK_TAG
from infra.settings.stack import Settings

FILE: Final = Path(__file__).with_name("actions.yaml")
"""API actions of AWS's official provider per resource type."""
LINK_SERVICE: Final = "s3.data-source.lustre.fsx.amazonaws.com"
LINK_ROLE_ACTIONS: Final = ("iam:AttachRolePolicy", "iam:CreateServiceLinkedRole", "iam:PutRolePolicy")
"""FSx creates a role for each linked file system, with the permissions of the caller:
https://docs.aws.amazon.com/fsx/latest/LustreGuide/setting-up.html#fsx-adding-permissions-s3"""
UNKNOWN_KEY: Final = "00000000-0000-0000-0000-000000000000"

EKS_ARN: Final = "arn:{partition}:eks:{region}:{account}"
ROLE_ARN: Final = "arn:{partition}:iam::{account}:role/{cluster}-role"
ARNS: Final[Mapping[str, str]] = {
    r"eks:(Create|Associate|Tag|DescribeUpdate).*|eks:\w+Cluster": f"{EKS_ARN}:cluster/{{cluster}}",
    r"eks:\w+Nodegroup": f"{EKS_ARN}:nodegroup/{{cluster}}/pool/0",
    r"eks:\w+Addon": f"{EKS_ARN}:addon/{{cluster}}/coredns/0",
    r"eks:\w+Access(Entry|Policy|Policies)": f"{EKS_ARN}:access-entry/{{cluster}}/role/{{account}}/admin/0",
    r"eks:\w+PodIdentityAssociation": f"{EKS_ARN}:podidentityassociation/{{cluster}}/0",
    r"iam:\w+InstanceProfile": "arn:{partition}:iam::{account}:instance-profile/{cluster}-profile",
    r"iam:.*": ROLE_ARN,
    r"s3:DeleteObject.*": "arn:{partition}:s3:::{cluster}-keys/key",
    r"s3:.*": "arn:{partition}:s3:::{cluster}-keys",
    r"logs:.*": "arn:{partition}:logs:{region}:{account}:log-group:/gpumpi/{stack}",
    r"autoscaling:CreateAutoScalingGroup": (
        f"arn:{{partition}}:autoscaling:{{region}}:{{account}}:autoScalingGroup:{UNKNOWN_KEY}:autoScalingGroupName/{{cluster}}"
    ),
    r"ec2:(Create|Delete)NetworkInterface": "arn:{partition}:ec2:{region}:{account}:network-interface/*",
    r"ecr:.*": "arn:{partition}:ecr:{region}:{account}:repository/{cluster}/mpi",
    r".*": "*",
}
"""Maps each pattern of actions to a resource that the stack could have, on which the actions are simulated; the first
match counts. AWS names the resources of the other services only when it creates them."""


@dataclass(frozen=True)
class Actions:
    """Actions with which the provider creates, reads, updates and deletes resources of one type."""

    create: tuple[str, ...]
    read: tuple[str, ...]
    update: tuple[str, ...]
    delete: tuple[str, ...]


def _parse_actions(recorded: Mapping[str, str]) -> Actions:
    def qualify_names(key: str) -> tuple[str, ...]:
        words = recorded.get(key, "").split()
        return tuple(word if ":" in word else f"{recorded['service']}:{word}" for word in words)

    return Actions(qualify_names("create"), qualify_names("read"), qualify_names("update"), qualify_names("delete"))


def read_actions() -> dict[str, Actions]:
    """Return the actions of each resource type."""
    loaded: Mapping[str, Mapping[str, str]] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return {token: _parse_actions(recorded) for token, recorded in loaded.items()}


@dataclass(frozen=True)
class Need:
    """Actions on one resource, with the values that condition keys have when AWS authorizes the requests."""

    actions: tuple[str, ...]
    resource: str = "*"
    context: Mapping[str, str] = field(default_factory=dict)


def list_needed_permissions(settings: Settings, facts: Facts) -> tuple[Need, ...]:
    """Return the permissions that the caller needs. Raises LookupError if the stack cannot be planned."""
    inventory = list_resources(settings, facts)
    names = {
        "partition": facts.partition,
        "region": settings.region,
        "account": facts.caller.account,
        "cluster": settings.cluster_name,
        "stack": settings.stack,
    }
    context = {
        f"aws:RequestTag/{STACK_TAG}": settings.stack,
        f"aws:ResourceTag/{STACK_TAG}": settings.stack,
        "aws:RequestedRegion": settings.region,
        "aws:PrincipalAccount": facts.caller.account,
        "aws:ResourceAccount": facts.caller.account,
        "ec2:CreateAction": "CreateVpc",
        "elasticfilesystem:CreateAction": "CreateFileSystem",
        **({"iam:PermissionsBoundary": settings.permissions_boundary} if settings.permissions_boundary else {}),
    }
    return tuple(_list_resource_permissions(inventory, names, context))


def _list_resource_permissions(inventory: Inventory, names: Mapping[str, str], context: Mapping[str, str]) -> Iterator[Need]:
    actions = read_actions()
    by_arn: dict[str, set[str]] = defaultdict(set)
    for resource in inventory.resources:
        for action in _list_needed_actions(resource, actions[resource.type]):
            by_arn[find_arn_template(action).format_map(names)].add(action)
    for arn, names_of_actions in by_arn.items():
        yield Need(tuple(sorted(names_of_actions)), arn, context)
    for service in sorted({TABLE[token].passes_roles_to for token in inventory.types} - {""}):
        yield Need(("iam:PassRole",), ROLE_ARN.format_map(names), {**context, "iam:PassedToService": service})
    yield from _list_key_permissions(inventory, names, context)
    if inventory.list_by_type(DATA_REPOSITORY):
        role = "arn:{partition}:iam::{account}:role/aws-service-role/".format_map(names)
        yield Need(
            LINK_ROLE_ACTIONS,
            f"{role}{LINK_SERVICE}/AWSServiceRoleForFSxS3Access_fs",
            {**context, "iam:AWSServiceName": LINK_SERVICE},
        )


def _list_needed_actions(resource: Resource, actions: Actions) -> Iterator[str]:
    """Yield the actions that `up` and `destroy` of a resource need."""
    yield from (*actions.create, *actions.read, *actions.delete)
    yield from (action for action, is_needed in TABLE[resource.type].optional.items() if is_needed(resource))


def _list_key_permissions(inventory: Inventory, names: Mapping[str, str], context: Mapping[str, str]) -> Iterator[Need]:
    """Yield the permissions on the stack's keys, which AWS uses on behalf of the caller."""
    key = f"arn:{{partition}}:kms:{{region}}:{{account}}:key/{UNKNOWN_KEY}".format_map(names)
    for resource in inventory.resources:
        if use := TABLE[resource.type].key_use(resource):
            via = {"kms:ViaService": f"{use.service}.{names['region']}.amazonaws.com"} if use.service else {}
            yield Need(use.actions, key, {**context, "kms:CallerAccount": names["account"], **via})


def find_arn_template(action: str) -> str:
    """Return the ARN template of the resource on which an action is simulated."""
    return next(arn for pattern, arn in ARNS.items() if re.fullmatch(pattern, action))
