"""A small evaluator of IAM policies, because moto does not evaluate them.

Follows https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html within one account:
it evaluates identity and resource policies together, and an explicit deny wins. Unknown policy elements raise
`UnknownPolicyElement`; none is ignored.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Decision = Literal["allow", "explicit deny", "implicit deny"]
Values = str | bool | int | Sequence[str]
Policy = Mapping[str, Any]

_STATEMENT_ELEMENTS = {
    "Sid", "Effect", "Principal", "NotPrincipal", "Action", "NotAction", "Resource", "NotResource", "Condition",
}  # fmt: skip


class UnknownPolicyElement(Exception):
    """A policy contains an element that this evaluator does not support."""


class _NoValue(Exception):
    """The request has no value for a policy variable."""


@dataclass(frozen=True)
class Request:
    """An API call: action, resource, principal and condition context."""

    action: str
    resource: str = "*"
    context: Mapping[str, Values] = field(default_factory=dict)
    principal: Mapping[str, str] = field(default_factory=dict)
    """For resource policies: `{"AWS": arn}` or `{"Service": name}`; empty for an anonymous caller."""


def decide(request: Request, *policies: Policy) -> Decision:
    """Return the combined decision of all policies."""
    effects = {statement["Effect"] for policy in policies for statement in statements(policy) if _applies(statement, request)}
    if "Deny" in effects:
        return "explicit deny"
    return "allow" if "Allow" in effects else "implicit deny"


def allows(request: Request, *policies: Policy) -> bool:
    return decide(request, *policies) == "allow"


def statements(policy: Policy) -> list[Mapping[str, Any]]:
    """Return a policy's statements after checking their syntax."""
    if policy.get("Version") != "2012-10-17":
        raise UnknownPolicyElement(f"Version {policy.get('Version')!r}: policy variables need 2012-10-17")
    found = policy["Statement"]
    found = [found] if isinstance(found, Mapping) else list(found)
    for statement in found:
        if unknown := set(statement) - _STATEMENT_ELEMENTS:
            raise UnknownPolicyElement(f"statement elements {sorted(unknown)}")
        if statement["Effect"] not in ("Allow", "Deny"):
            raise UnknownPolicyElement(f"Effect {statement['Effect']!r}")
        if ("Action" in statement) == ("NotAction" in statement):
            raise UnknownPolicyElement("a statement needs either Action or NotAction")
        for operator in statement.get("Condition", {}):
            _operator(operator)
    return found


def as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


# --- one statement -----------------------------------------------------------------------------------------------------


def _applies(statement: Mapping[str, Any], request: Request) -> bool:
    return (
        _principal_matches(statement, request)
        and _action_matches(statement, request)
        and _resource_matches(statement, request)
        and all(
            _condition_holds(operator, key, values, request)
            for operator, tests in statement.get("Condition", {}).items()
            for key, values in tests.items()
        )
    )


def _principal_matches(statement: Mapping[str, Any], request: Request) -> bool:
    if "NotPrincipal" in statement:
        raise UnknownPolicyElement("NotPrincipal")
    if "Principal" not in statement:
        return True  # an identity policy, which is attached to the caller
    return any(_is_principal(kind, wanted, request) for kind, wanted in _principals(statement["Principal"]))


def _principals(principal: Any) -> Iterable[tuple[str, str]]:
    if principal == "*":
        return [("AWS", "*")]
    return [(kind, one) for kind, values in principal.items() for one in as_list(values)]


def _is_principal(kind: str, wanted: str, request: Request) -> bool:
    if kind not in ("AWS", "Service"):
        raise UnknownPolicyElement(f"principal {kind}")
    if kind == "AWS" and wanted == "*":
        return True
    actual = request.principal.get(kind)
    if actual is None:
        return False
    if kind == "AWS" and wanted.endswith(":root"):  # every principal in the account, subject to IAM policies
        return actual.split(":")[4] == wanted.split(":")[4]
    return actual == wanted


def _action_matches(statement: Mapping[str, Any], request: Request) -> bool:
    patterns = as_list(statement.get("Action", statement.get("NotAction")))
    found = any(_like(request.action.lower(), pattern.lower()) for pattern in patterns)
    return found if "Action" in statement else not found


def _resource_matches(statement: Mapping[str, Any], request: Request) -> bool:
    if "Resource" not in statement and "NotResource" not in statement:
        return True  # a trust policy, whose resource is the role
    patterns = as_list(statement.get("Resource", statement.get("NotResource")))
    found = any(_like_with_variables(request.resource, pattern, request) for pattern in patterns)
    return found if "Resource" in statement else not found


# --- conditions --------------------------------------------------------------------------------------------------------


def _condition_holds(operator: str, key: str, wanted: Any, request: Request) -> bool:
    quantifier, test, negated, if_exists = _operator(operator)
    context = {name.lower(): value for name, value in request.context.items()}
    actual = context.get(key.lower())
    if test is None:  # Null: "true" means the key must be absent
        return all((str(value).lower() == "true") == (actual is None) for value in as_list(wanted))
    if actual is None:
        return if_exists or negated or quantifier == "ForAllValues"

    def one_holds(value: str) -> bool:
        matched = any(_safely(test, value, pattern, request) for pattern in as_list(wanted))
        return not matched if negated else matched

    values = [_text(value) for value in as_list(actual)]
    if quantifier is None and len(values) != 1:
        raise UnknownPolicyElement(f"{operator} on {key}, which has several values: add ForAllValues or ForAnyValue")
    return any(map(one_holds, values)) if quantifier == "ForAnyValue" else all(map(one_holds, values))


_Test = Callable[[str, str, Request], bool]


def _operator(name: str) -> tuple[str | None, _Test | None, bool, bool]:
    """Return the quantifier, the test (None for Null), whether the test is negated, and whether the condition holds if
    the key is missing.
    """
    quantifier, colon, rest = name.rpartition(":")
    if colon and quantifier not in ("ForAllValues", "ForAnyValue"):
        raise UnknownPolicyElement(f"condition operator {name}")
    if_exists = rest.endswith("IfExists")
    rest = rest.removesuffix("IfExists")
    if rest == "Null":
        return quantifier or None, None, False, if_exists
    negated = rest in _NEGATIONS
    positive = _NEGATIONS.get(rest, rest)
    if positive not in _TESTS:
        raise UnknownPolicyElement(f"condition operator {name}")
    return quantifier or None, _TESTS[positive], negated, if_exists


def _safely(test: _Test, value: str, pattern: Any, request: Request) -> bool:
    try:
        return test(value, _text(pattern), request)
    except _NoValue:
        return False


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _arn_like(value: str, pattern: str, request: Request) -> bool:
    """Compare ARNs part by part. A wildcard matches a colon only in the last part."""
    values, patterns = value.split(":", 5), pattern.split(":", 5)
    return len(values) == len(patterns) and all(
        _like_with_variables(one, other, request) for one, other in zip(values, patterns, strict=True)
    )


_TESTS: Mapping[str, _Test] = {
    "StringEquals": lambda value, pattern, request: value == _filled(pattern, request),
    "StringEqualsIgnoreCase": lambda value, pattern, request: value.lower() == _filled(pattern, request).lower(),
    "StringLike": lambda value, pattern, request: _like_with_variables(value, pattern, request),
    "Bool": lambda value, pattern, _: value.lower() == pattern.lower(),
    "ArnEquals": _arn_like,  # AWS treats ArnEquals and ArnLike alike
    "ArnLike": _arn_like,
}
_NEGATIONS = {
    "StringNotEquals": "StringEquals",
    "StringNotEqualsIgnoreCase": "StringEqualsIgnoreCase",
    "StringNotLike": "StringLike",
    "ArnNotEquals": "ArnEquals",
    "ArnNotLike": "ArnLike",
}


# --- patterns ----------------------------------------------------------------------------------------------------------

_VARIABLE = re.compile(r"\$\{([^}]*)\}")
_LITERALS = {"*": "*", "?": "?", "$": "$"}


def _like(value: str, pattern: str) -> bool:
    return re.fullmatch(_as_expression(pattern), value, re.DOTALL) is not None


def _as_expression(pattern: str) -> str:
    return "".join({"*": ".*", "?": "."}.get(char, re.escape(char)) for char in pattern)


def _like_with_variables(value: str, pattern: str, request: Request) -> bool:
    """Match a value against a pattern that may contain policy variables. The variables' values match literally; a
    variable without a value matches nothing.
    """
    try:
        parts = [
            re.escape(_variable(part, request)) if index % 2 else _as_expression(part)
            for index, part in enumerate(_VARIABLE.split(pattern))
        ]
    except _NoValue:
        return False
    return re.fullmatch("".join(parts), value, re.DOTALL) is not None


def _filled(text: str, request: Request) -> str:
    return _VARIABLE.sub(lambda match: _variable(match[1], request), text)


def _variable(name: str, request: Request) -> str:
    if name in _LITERALS:
        return _LITERALS[name]
    if "," in name:
        raise UnknownPolicyElement(f"default values of policy variables are not supported: {name}")
    value = {key.lower(): value for key, value in request.context.items()}.get(name.lower())
    if value is None:
        raise _NoValue(name)
    if not isinstance(value, str):
        raise UnknownPolicyElement(f"policy variable {name} has several values")
    return value
