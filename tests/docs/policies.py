"""Generate the policies in docs/iam from the inventory's table of resource types and the grants in `policy_grants`.

`python -m tests.docs.tables` writes them. capacity.json and daily.json are for verbs that create no stack resources, so they
are written by hand.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from infra.facts.account_limits import SERVICE_ROLES
from infra.inventory.permissions import LINK_ROLE_ACTIONS, LINK_SERVICE, read_actions
from infra.inventory.storage import FILE_KEY_ACTIONS
from infra.inventory.table import TABLE
from tests.docs import boundary
from tests.docs.policy_grants import GRANTS, READS, ROLES, WITHHELD, Grant

CHECKS: Final = {
    *("autoscaling:DescribeAutoScalingInstances", "autoscaling:DescribeScalingActivities", "ec2:DescribeAvailabilityZones"),
    *("ec2:DescribeCapacityReservations", "ec2:DescribeImages", "ec2:DescribeInstanceTypeOfferings"),
    *("ec2:DescribeSpotPriceHistory", "ec2:DescribeVpcEndpointServices", "ec2:GetEbsDefaultKmsKeyId", "ecr:DescribeImages"),
    *("eks:DescribeAddonVersions", "eks:DescribeClusterVersions", "eks:DescribeUpdate", "eks:ListClusters"),
    *("eks:ListAddons", "eks:ListNodegroups", "eks:ListPodIdentityAssociations", "iam:GetAccountSummary", "iam:GetUser"),
    *(
        "iam:ListRoles",
        "iam:SimulatePrincipalPolicy",
        "kms:ListGrants",
        "kms:ListKeys",
        "pricing:GetProducts",
        "servicequotas:GetServiceQuota",
    ),
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
    created = VERBS.union(FILE_KEY_ACTIONS, optional, *((*actions.create, *actions.update) for actions in types))
    changes = created - read - WITHHELD.keys()
    deletions = {action for actions in types for action in actions.delete}
    principals = _make_statement("OtherPrincipals", ANY_PRINCIPAL, "*")
    files = {file: _make_statements([grant for grant in GRANTS if file in grant.files], changes) for file in _list_files()}
    for file in ("up-roles", "up-roles-bounded"):
        files[file] += _make_role_statements()
    unbounded = [grant for grant in GRANTS if grant.files != ("up-roles-bounded",)]
    return {
        "read": _make_policy([*_make_statements(READS, read - {"iam:GetUser"}, first_only=True), principals]),
        **{file: _make_policy(statements) for file, statements in files.items()},
        "destroy": _make_policy(_make_statements(unbounded, deletions)),
        "boundary": _make_policy(boundary.make_statements()),
    }


def render_policy(name: str) -> str:
    return json.dumps(generate_policies()[name], indent=2) + "\n"


def _list_files() -> list[str]:
    return list(dict.fromkeys(file for grant in GRANTS for file in grant.files))


def _make_policy(statements: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"Version": "2012-10-17", "Statement": list(statements)}


def _make_statements(grants: Sequence[Grant], actions: Iterable[str], *, first_only: bool = False) -> list[dict[str, Any]]:
    """Return a statement per grant with the actions that it matches: all of its actions, or those that no earlier grant has."""
    grouped: dict[Grant, list[str]] = {grant: [] for grant in grants}
    for action in sorted(actions):
        fitting = [grant for grant in grants if re.fullmatch(grant.actions, action)]
        for grant in fitting[:1] if first_only else fitting:
            grouped[grant].append(action)
    return [_make_statement(grant.sid, names, grant.resources, grant.condition) for grant, names in grouped.items() if names]


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
