"""Generate the policies docs/iam/{read,up,destroy}.json from the inventory's table of resource types.

`python -m tests.docs.tables` writes them. capacity.json and daily.json are for verbs that create no stack resources, so they
are written by hand.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from infra.facts.account_limits import SERVICE_ROLES
from infra.inventory.permissions import LINK_ROLE_ACTIONS, LINK_SERVICE, read_actions
from infra.inventory.storage import FILE_KEY_ACTIONS
from infra.inventory.table import TABLE
from infra.naming import PROJECT, STACK_TAG


@dataclass(frozen=True, eq=False)
class Scope:
    """Actions that share a statement, and the limits of the statement."""

    sid: str
    actions: str
    """Pattern of the actions."""
    resources: str | list[str] = "*"
    condition: Mapping[str, Any] | None = None


ROLES: Final = [f"arn:aws:iam::*:role/{PROJECT}-*", f"arn:aws:iam::*:instance-profile/{PROJECT}-*"]
LOG_GROUPS: Final = [f"arn:aws:logs:*:*:log-group:/{PROJECT}/*", f"arn:aws:logs:*:*:log-group:/aws/eks/{PROJECT}-*"]
EKS_KINDS: Final = ("cluster", "nodegroup", "addon", "access-entry", "podidentityassociation")
TAGGED: Final = (
    "ec2:(Delete(InternetGateway|LaunchTemplate|NatGateway|RouteTable|SecurityGroup|Subnet|Vpc|VpcEndpoints)|ReleaseAddress|"
    "TerminateInstances)"
)
SCOPES: Final = (
    Scope("TaggedByStacks", TAGGED, condition={"Null": {f"aws:ResourceTag/{STACK_TAG}": "false"}}),
    Scope("Ec2", r"(ec2|route53):\w+"),
    Scope("Groups", r"autoscaling:\w+"),
    Scope("FileSystems", r"(elasticfilesystem|fsx):\w+"),
    Scope("Account", r"eks:(CreateCluster|ListClusters|Describe\w+Versions)|iam:(GetAccountSummary|SimulatePrincipalPolicy)"),
    Scope("Clusters", r"eks:\w+", [f"arn:aws:eks:*:*:{kind}/{PROJECT}-*" for kind in EKS_KINDS]),
    Scope("Users", r"iam:GetUser"),
    Scope("Roles", r"iam:\w+", ROLES),
    Scope("Keys", r"kms:\w+"),
    Scope("LogGroups", r"logs:(Describe|List)\w+"),
    Scope("ManageLogGroups", r"logs:\w+", LOG_GROUPS),
    Scope("Objects", r"s3:DeleteObject\w*", f"arn:aws:s3:::{PROJECT}-*/*"),
    Scope("Buckets", r"s3:\w+", f"arn:aws:s3:::{PROJECT}-*"),
    Scope("Repositories", r"ecr:\w+", f"arn:aws:ecr:*:*:repository/{PROJECT}-*"),
    Scope("Other", r".*"),
)
"""The first scope whose pattern matches an action applies."""

CHECKS: Final = {
    *("autoscaling:DescribeAutoScalingInstances", "autoscaling:DescribeScalingActivities", "ec2:DescribeAvailabilityZones"),
    *("ec2:DescribeCapacityReservations", "ec2:DescribeImages", "ec2:DescribeInstanceTypeOfferings"),
    *("ec2:DescribeSpotPriceHistory", "ec2:DescribeVpcEndpointServices", "ec2:GetEbsDefaultKmsKeyId", "ecr:DescribeImages"),
    *("eks:DescribeAddonVersions", "eks:DescribeClusterVersions", "eks:DescribeUpdate", "eks:ListClusters"),
    *("eks:ListAddons", "eks:ListNodegroups", "eks:ListPodIdentityAssociations", "iam:GetAccountSummary", "iam:GetUser"),
    *("iam:SimulatePrincipalPolicy", "kms:ListGrants", "kms:ListKeys", "pricing:GetProducts", "servicequotas:GetServiceQuota"),
}
"""Reads of `validate`, `plan`, `cost` and `recover`, and of changes in progress."""
VERBS: Final = {"autoscaling:SetDesiredCapacity", "logs:DeleteLogGroup"}
"""Actions of `scale`, and of `up` where EKS recreated a log group after `destroy`."""
ANY_PRINCIPAL: Final = ("iam:GetInstanceProfile", "iam:GetRole", "iam:GetUser", "iam:ListAttachedRolePolicies")
"""Reads of roles and users that no stack created, such as the caller and `target.admins`."""


def generate_policies() -> dict[str, dict[str, Any]]:
    """Return the name and the content of each generated policy."""
    types = read_actions().values()
    read = CHECKS.union(*(actions.read for actions in types))
    optional = {action for entry in TABLE.values() for action in entry.optional}
    changes = VERBS.union(FILE_KEY_ACTIONS, optional, *((*actions.create, *actions.update) for actions in types)) - read
    deletions = {action for actions in types for action in actions.delete}
    principals = _make_statement("OtherPrincipals", ANY_PRINCIPAL, "*")
    return {
        "read": _make_policy([*_make_statements(read - {"iam:GetUser"}), principals]),
        "up": _make_policy([*_make_statements(changes), *_make_role_statements()]),
        "destroy": _make_policy(_make_statements(deletions)),
    }


def render_policy(name: str) -> str:
    return json.dumps(generate_policies()[name], indent=2) + "\n"


def _make_policy(statements: list[dict[str, Any]]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": statements}


def _make_statements(actions: Iterable[str]) -> list[dict[str, Any]]:
    grouped: dict[Scope, list[str]] = {scope: [] for scope in SCOPES}
    for action in sorted(actions):
        grouped[next(scope for scope in SCOPES if re.fullmatch(scope.actions, action))].append(action)
    return [_make_statement(scope.sid, names, scope.resources, scope.condition) for scope, names in grouped.items() if names]


def _make_role_statements() -> list[dict[str, Any]]:
    """Return the statements on passing roles and on service-linked roles."""
    passed = sorted({entry.passes_roles_to for entry in TABLE.values()} - {""})
    linked = {"StringEquals": {"iam:AWSServiceName": sorted([*SERVICE_ROLES, LINK_SERVICE])}}
    link_actions = [action for action in LINK_ROLE_ACTIONS if action != "iam:CreateServiceLinkedRole"]
    service_roles = "arn:aws:iam::*:role/aws-service-role"
    return [
        _make_statement("PassRoles", ["iam:PassRole"], ROLES[0], {"StringEquals": {"iam:PassedToService": passed}}),
        _make_statement("ServiceRoles", ["iam:CreateServiceLinkedRole"], f"{service_roles}/*", linked),
        _make_statement("DataRepositoryRoles", link_actions, f"{service_roles}/{LINK_SERVICE}/*"),
    ]


def _make_statement(
    sid: str, actions: Iterable[str], resources: str | list[str], condition: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    statement: dict[str, Any] = {"Sid": sid, "Effect": "Allow", "Action": list(actions), "Resource": resources}
    return {**statement, "Condition": condition} if condition else statement
