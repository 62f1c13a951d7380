"""The IAM policies for users in docs/iam, and functions that restrict the local cloud's user to these policies."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import yaml

from localcloud.aws.account import ADMINISTRATOR_ACCESS, USER_NAME
from localcloud.aws.policy_evaluation import to_list

FOLDER = Path(__file__).parents[1] / "docs" / "iam"


def list_policy_files() -> list[Path]:
    return sorted(FOLDER.glob("*.json"))


def read_policy(name: str) -> dict[str, Any]:
    """Return the policy in docs/iam/NAME.json."""
    document: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return document


def list_allowed_actions(path: Path) -> set[str]:
    """Return the actions that a policy file allows."""
    return {action for statement in json.loads(path.read_text())["Statement"] for action in to_list(statement["Action"])}


def read_action_sources() -> dict[str, str]:
    """Map each action to the source that shows why a user needs it: a recorded call, code or a document."""
    sources_by_action: dict[str, str] = yaml.safe_load((FOLDER / "sources.yaml").read_text())
    return sources_by_action


def remove_action(document: dict[str, Any], action: str) -> dict[str, Any]:
    """Return a copy of a policy without one of its actions."""
    statements = [
        {**statement, "Action": [name for name in to_list(statement["Action"]) if name != action]}
        for statement in document["Statement"]
    ]
    return {**document, "Statement": [statement for statement in statements if statement["Action"]]}


def restrict_user(client: Callable[[str], Any], documents: Iterable[dict[str, Any]]) -> None:
    """Replace the administrator policy of the account's user with these policies, until the account is reset."""
    iam = client("iam")
    for place, document in enumerate(documents):
        created = iam.create_policy(PolicyName=f"restricted-{place}", PolicyDocument=json.dumps(document))["Policy"]
        iam.attach_user_policy(UserName=USER_NAME, PolicyArn=created["Arn"])
    iam.detach_user_policy(UserName=USER_NAME, PolicyArn=ADMINISTRATOR_ACCESS)
