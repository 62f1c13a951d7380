"""Evaluates a KMS key policy for one principal. Pure.

https://docs.aws.amazon.com/kms/latest/developerguide/policy-evaluation.html
"""

from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

Verdict = bool | None
"""Whether the policy allows a request; None if this depends on values that are unknown before the request."""

_TESTS: Mapping[str, Callable[[str, str], bool]] = {
    "stringequals": lambda value, wanted: value == wanted,
    "stringlike": fnmatchcase,
    "arnequals": fnmatchcase,
    "arnlike": fnmatchcase,
    "bool": lambda value, wanted: value == wanted.lower(),
}


def allows(policy: Mapping[str, Any], principal: str, action: str, context: Mapping[str, str]) -> Verdict:
    """Return whether the policy itself allows the action. `context` maps lowercase condition keys to values.

    Statements for the account's root do not count: they delegate the decision to IAM policies.
    """
    statements = [one for one in _many(policy.get("Statement")) if _covers(one, action)]
    denied = _any(_applies(one, principal, context) for one in statements if one.get("Effect") == "Deny")
    allowed = _any(_applies(one, principal, context) for one in statements if one.get("Effect") == "Allow")
    if denied or allowed is False:
        return False
    return None if denied is None else allowed


def _applies(statement: Mapping[str, Any], principal: str, context: Mapping[str, str]) -> Verdict:
    conditions = [
        _holds(operator.lower(), key.lower(), _many(wanted), context)
        for operator, tests in statement.get("Condition", {}).items()
        for key, wanted in tests.items()
    ]
    return _all([_names(statement, principal), *conditions])


def _names(statement: Mapping[str, Any], principal: str) -> Verdict:
    if "NotPrincipal" in statement:
        return None
    given = statement.get("Principal")
    names = _many(given.get("AWS")) if isinstance(given, Mapping) else _many(given)
    account = principal.split(":")[4]
    everyone = {"*", principal}
    if statement.get("Effect") == "Deny":
        everyone |= {account, principal.partition(":iam:")[0] + f":iam::{account}:root"}
    return bool(everyone.intersection(names))


def _covers(statement: Mapping[str, Any], action: str) -> bool:
    element = "NotAction" if "NotAction" in statement else "Action"
    matches = any(fnmatchcase(action.lower(), pattern.lower()) for pattern in _many(statement.get(element)))
    return matches == (element == "Action")


def _holds(operator: str, key: str, wanted: list[str], context: Mapping[str, str]) -> Verdict:
    test, value = _TESTS.get(operator.removesuffix("ifexists")), context.get(key)
    if test is None or value is None:
        return None
    return any(test(value, str(one)) for one in wanted)


def _any(verdicts: Iterable[Verdict]) -> Verdict:
    found = list(verdicts)
    return True if True in found else None if None in found else False


def _all(verdicts: Iterable[Verdict]) -> Verdict:
    found = list(verdicts)
    return False if False in found else None if None in found else True


def _many(value: Any) -> list[Any]:
    return [] if value is None else list(value) if isinstance(value, list) else [value]
