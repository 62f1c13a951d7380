"""IAM policy language: validation of policy documents.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_grammar.html
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from localcloud.aws.policy_evaluation import is_operator, to_list

_ELEMENTS = {"Sid", "Effect", "Principal", "NotPrincipal", "Action", "NotAction", "Resource", "NotResource", "Condition"}


class InvalidPolicy(Exception):
    """Invalid policy document. The message is AWS's error message."""


def parse_policy(text: str) -> dict[str, Any]:
    """Parse a policy and check the general grammar. Each service checks the elements that it requires."""
    try:
        document = json.loads(text)
    except ValueError:
        raise InvalidPolicy("This policy contains invalid Json") from None
    if not isinstance(document, dict):
        raise InvalidPolicy("Syntax errors in policy.")
    if unknown := sorted(set(document) - {"Version", "Id", "Statement"}):
        raise InvalidPolicy(f"Unknown field {unknown[0]}")
    if document.get("Version", "2008-10-17") not in ("2012-10-17", "2008-10-17"):
        raise InvalidPolicy("The policy must contain a valid version string")
    if not list_statements(document):
        raise InvalidPolicy("Missing required field Statement")
    for statement in list_statements(document):
        _check_statement(statement)
    sids = [statement["Sid"] for statement in list_statements(document) if statement.get("Sid")]
    if len(sids) != len(set(sids)):
        raise InvalidPolicy("Statement IDs (SID) in a single policy must be unique.")
    return document


def list_statements(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    return to_list(document.get("Statement"))


def list_principals(statement: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the kind and name of each principal: ("AWS", "arn:..."), ("Service", "ec2.amazonaws.com"), ("*", "*")."""
    principal = statement.get("Principal", statement.get("NotPrincipal"))
    if principal == "*":
        yield "*", "*"
    elif isinstance(principal, dict):
        for kind, names in principal.items():
            yield from ((kind, name) for name in to_list(names))


def list_actions(statement: Mapping[str, Any]) -> list[str]:
    return to_list(statement.get("Action", statement.get("NotAction")))


def list_resources(statement: Mapping[str, Any]) -> list[str]:
    return to_list(statement.get("Resource", statement.get("NotResource")))


def _check_statement(statement: Any) -> None:
    if not isinstance(statement, dict):
        raise InvalidPolicy("Syntax errors in policy.")
    if unknown := sorted(set(statement) - _ELEMENTS):
        raise InvalidPolicy(f"Unknown field {unknown[0]}")
    if "Effect" not in statement:
        raise InvalidPolicy("Missing required field Effect")
    if statement["Effect"] not in ("Allow", "Deny"):
        raise InvalidPolicy(f"Invalid effect: {statement['Effect']}")
    if ("Action" in statement) == ("NotAction" in statement):
        raise InvalidPolicy("Missing required field Action" if "Action" not in statement else "Syntax errors in policy.")
    for pair in (("Principal", "NotPrincipal"), ("Resource", "NotResource")):
        if all(name in statement for name in pair):
            raise InvalidPolicy(f"Statement has both {pair[0]} and {pair[1]}")
    for action in list_actions(statement):
        if not isinstance(action, str) or not re.fullmatch(r"\*|[a-z0-9-]+:[A-Za-z0-9*?]+", action):
            raise InvalidPolicy("Actions/Conditions must be prefaced by a vendor, e.g., iam, sdb, ec2, etc.")
    for operator, tests in statement.get("Condition", {}).items():
        if not is_operator(operator) or not isinstance(tests, dict):
            raise InvalidPolicy(f"Invalid Condition type : {operator}")
