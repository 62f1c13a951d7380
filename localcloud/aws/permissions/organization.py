"""Service control policy of the organization: it can deny actions to everyone in the account.

https://docs.aws.amazon.com/organizations/latest/userguide/orgs_manage_policies_scps.html
"""

import re

from localcloud.aws import control_actions, patching
from localcloud.aws.policy_evaluation import Policy

KIND = "service control policy"
_ACTION = re.compile(r"[a-z0-9-]+:[A-Za-z0-9*?]+")

_denied: dict[str, None] = {}


def list_policies() -> tuple[Policy, ...]:
    """Return the organization's policies, which allow everything except the denied actions."""
    if not _denied:
        return ()
    everything = {"Effect": "Allow", "Action": "*", "Resource": "*"}
    return ({"Version": "2012-10-17", "Statement": [everything, {"Effect": "Deny", "Action": [*_denied], "Resource": "*"}]},)


def deny_action(action: str) -> None:
    """Deny an action, such as `ec2:CreateVpc` or `eks:*`, until the next reset."""
    if not _ACTION.fullmatch(action):
        raise ValueError(f"{action} is not an action. Use a form such as ec2:CreateVpc or eks:*")
    _denied[action] = None


@control_actions.action("GET", "denials")
def _list_denied(_: object) -> list[str]:
    return list(_denied)


@control_actions.action("POST", "denials")
def _deny(body: dict[str, str]) -> list[str]:
    deny_action(body["action"])
    return list(_denied)


@control_actions.action("DELETE", "denials")
def _clear_denied_actions(_: object) -> list[str]:
    _reset_denied_actions()
    return []


@patching.on_reset
def _reset_denied_actions() -> None:
    _denied.clear()
