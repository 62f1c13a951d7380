"""Evaluation of IAM policies: which statements apply to a request, and their combined decision.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html. The local AWS and the tests of
the program's policies use this module. Unsupported elements are never ignored: they raise `UnknownPolicyElement`.
"""

import ipaddress
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Literal

Decision = Literal["allow", "explicit deny", "implicit deny"]
Values = str | bool | int | Sequence[str]
Policy = Mapping[str, Any]

_STATEMENT_ELEMENTS = {
    "Sid", "Effect", "Principal", "NotPrincipal", "Action", "NotAction", "Resource", "NotResource", "Condition",
}  # fmt: skip


class UnknownPolicyElement(Exception):
    """A policy contains an element that this module does not support."""


class _NoValue(Exception):
    """The request has no value for a policy variable."""


@dataclass(frozen=True)
class Request:
    """An API call: action, resource, principal and condition context."""

    action: str
    resource: str | None = "*"
    """ARN, or `*` for an action without resource types; None if the ARN is unknown. With None, an Allow applies only if
    its resource is `*`, and a Deny always applies.
    """
    context: Mapping[str, Values] = field(default_factory=dict)
    principal: Mapping[str, str] = field(default_factory=dict)
    """For resource policies: `{"AWS": arn}` or `{"Service": name}`; empty for an anonymous caller."""
    via_account: bool = True
    """Whether a resource policy whose principal is an account (its root) applies to principals in that account."""

    @cached_property
    def keys(self) -> Mapping[str, Values]:
        """The context, with condition keys in lower case."""
        return {name.lower(): value for name, value in self.context.items()}


def evaluate_request(request: Request, *policies: Policy) -> Decision:
    """Return the combined decision of all policies."""
    effects = {
        statement["Effect"]
        for policy in policies
        for statement in list_statements(policy)
        if _statement_applies(statement, request, policy.get("Version") == "2012-10-17")
    }
    if "Deny" in effects:
        return "explicit deny"
    return "allow" if "Allow" in effects else "implicit deny"


def allows(request: Request, *policies: Policy) -> bool:
    return evaluate_request(request, *policies) == "allow"


@lru_cache(maxsize=4096)
def parse_document(text: str) -> Policy:
    """Return a parsed policy. Policies are evaluated for every request, so each text is parsed once."""
    parsed: Policy = json.loads(text)
    return parsed


def list_statements(policy: Policy) -> list[Mapping[str, Any]]:
    """Return a policy's statements after checking their syntax."""
    policy_statements = policy["Statement"]
    policy_statements = [policy_statements] if isinstance(policy_statements, Mapping) else list(policy_statements)
    for statement in policy_statements:
        if not statement.keys() <= _STATEMENT_ELEMENTS:
            raise UnknownPolicyElement(f"statement elements {sorted(set(statement) - _STATEMENT_ELEMENTS)}")
        if statement["Effect"] not in ("Allow", "Deny"):
            raise UnknownPolicyElement(f"Effect {statement['Effect']!r}")
        if ("Action" in statement) == ("NotAction" in statement):
            raise UnknownPolicyElement("a statement needs either Action or NotAction")
        for operator in statement.get("Condition", {}):
            _parse_operator(operator)
    return policy_statements


def is_operator(name: str) -> bool:
    """Return whether the condition operator exists."""
    try:
        _parse_operator(name)
    except UnknownPolicyElement:
        return False
    return True


def to_list(value: Any) -> list[Any]:
    return [] if value is None else list(value) if isinstance(value, list | tuple) else [value]


# --- one statement -----------------------------------------------------------------------------------------------------


def _statement_applies(statement: Mapping[str, Any], request: Request, variables: bool) -> bool:
    """Return whether a statement applies to a request.

    `variables`: whether the policy's version supports policy variables; in older versions, `${...}` is plain text.
    https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_version.html
    """
    texts = _Texts(request, variables)
    return (
        action_matches(statement, request)
        and _principal_matches(statement, request)
        and _resource_matches(statement, request, texts)
        and all(
            _condition_holds(operator, key, values, request, texts)
            for operator, tests in statement.get("Condition", {}).items()
            for key, values in tests.items()
        )
    )


def _principal_matches(statement: Mapping[str, Any], request: Request) -> bool:
    element = next((name for name in ("Principal", "NotPrincipal") if name in statement), None)
    if element is None:
        return True  # an identity policy, which is attached to the caller
    matches_any = any(_matches_principal(kind, pattern, request) for kind, pattern in _list_principals(statement[element]))
    return matches_any if element == "Principal" else not matches_any


def _list_principals(principal: Any) -> Iterable[tuple[str, str]]:
    if principal == "*":
        return [("AWS", "*")]
    return [(kind, pattern) for kind, values in principal.items() for pattern in to_list(values)]


def _matches_principal(kind: str, pattern: str, request: Request) -> bool:
    if kind not in ("AWS", "Service", "Federated", "CanonicalUser"):
        raise UnknownPolicyElement(f"principal {kind}")
    if kind == "AWS" and pattern == "*":
        return True
    actual = request.principal.get(kind)
    if actual is None:
        return False
    account = re.fullmatch(r"(?:arn:[a-z-]+:iam::)?(\d{12})(?::root)?", pattern) if kind == "AWS" else None
    if account is not None and not actual.endswith(":root"):  # every principal in the account, subject to IAM policies
        return request.via_account and actual.split(":")[4] == account[1]
    return actual == pattern


def action_matches(statement: Mapping[str, Any], request: Request) -> bool:
    """Return whether a statement applies to the request's action."""
    patterns = to_list(statement.get("Action", statement.get("NotAction")))
    action = request.action.lower()
    matches_any = any(_compile_pattern(pattern.lower()).fullmatch(action) for pattern in patterns)
    return matches_any if "Action" in statement else not matches_any


def _resource_matches(statement: Mapping[str, Any], request: Request, texts: "_Texts") -> bool:
    element = next((name for name in ("Resource", "NotResource") if name in statement), None)
    if element is None:
        return True  # a trust policy, which applies only to its role
    patterns = to_list(statement[element])
    if request.resource is None:
        return statement["Effect"] == "Deny" or (element == "Resource" and "*" in patterns)
    matches_any = any(texts.matches_pattern(request.resource, pattern) for pattern in patterns)
    return matches_any if element == "Resource" else not matches_any


# --- conditions --------------------------------------------------------------------------------------------------------


def _condition_holds(operator: str, key: str, expected: Any, request: Request, texts: "_Texts") -> bool:
    quantifier, test, negated, if_exists = _parse_operator(operator)
    actual = request.keys.get(key.lower())
    if test is None:  # Null: "true" means the key must be absent
        return all((str(value).lower() == "true") == (actual is None) for value in to_list(expected))
    if actual is None:
        return if_exists or negated or quantifier == "ForAllValues"

    def satisfies_condition(value: str) -> bool:
        matched = any(_run_test(test, value, _to_text(pattern), texts) for pattern in to_list(expected))
        return not matched if negated else matched

    values = [_to_text(value) for value in to_list(actual)]
    if quantifier is None and len(values) != 1:
        raise UnknownPolicyElement(f"{operator} on {key}, which has several values; add ForAllValues or ForAnyValue")
    return any(map(satisfies_condition, values)) if quantifier == "ForAnyValue" else all(map(satisfies_condition, values))


_Test = Callable[[str, str, "_Texts"], bool]


@lru_cache(maxsize=1024)
def _parse_operator(name: str) -> tuple[str | None, _Test | None, bool, bool]:
    """Split a condition operator. Return the operator's quantifier, the test (None for Null), whether the test is negated, and
    whether the condition holds if the key is missing.
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


def _run_test(test: _Test, value: str, pattern: str, texts: "_Texts") -> bool:
    """Return the test's result. A variable without a value, or a value that is not a number or address, does not match."""
    try:
        return test(value, pattern, texts)
    except (_NoValue, ValueError):
        return False


def _to_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_arn_like(value: str, pattern: str, texts: "_Texts") -> bool:
    """Compare ARNs part by part. A wildcard matches a colon only in the last part."""
    values, patterns = value.split(":", 5), pattern.split(":", 5)
    if "${" in pattern:  # a variable's name may contain a colon
        patterns = re.sub(r"\$\{[^}]*\}", lambda match: match[0].replace(":", "\0"), pattern).split(":", 5)
        patterns = [part.replace("\0", ":") for part in patterns]
    return len(values) == len(patterns) and all(
        texts.matches_pattern(part, other) for part, other in zip(values, patterns, strict=True)
    )


def _is_address_in(value: str, pattern: str, _: "_Texts") -> bool:
    return ipaddress.ip_address(value) in ipaddress.ip_network(pattern, strict=False)


_TESTS: Mapping[str, _Test] = {
    "StringEquals": lambda value, pattern, texts: value == texts.substitute_variables(pattern),
    "StringEqualsIgnoreCase": lambda value, pattern, texts: value.lower() == texts.substitute_variables(pattern).lower(),
    "StringLike": lambda value, pattern, texts: texts.matches_pattern(value, pattern),
    "Bool": lambda value, pattern, _: value.lower() == pattern.lower(),
    "ArnEquals": _is_arn_like,  # AWS treats ArnEquals and ArnLike alike
    "ArnLike": _is_arn_like,
    "NumericEquals": lambda value, pattern, _: float(value) == float(pattern),
    "NumericLessThan": lambda value, pattern, _: float(value) < float(pattern),
    "NumericLessThanEquals": lambda value, pattern, _: float(value) <= float(pattern),
    "NumericGreaterThan": lambda value, pattern, _: float(value) > float(pattern),
    "NumericGreaterThanEquals": lambda value, pattern, _: float(value) >= float(pattern),
    "DateLessThan": lambda value, pattern, _: value < pattern,
    "DateGreaterThan": lambda value, pattern, _: value > pattern,
    "IpAddress": _is_address_in,
}
_NEGATIONS = {
    "StringNotEquals": "StringEquals",
    "StringNotEqualsIgnoreCase": "StringEqualsIgnoreCase",
    "StringNotLike": "StringLike",
    "ArnNotEquals": "ArnEquals",
    "ArnNotLike": "ArnLike",
    "NumericNotEquals": "NumericEquals",
    "NotIpAddress": "IpAddress",
}


# --- patterns ----------------------------------------------------------------------------------------------------------

_VARIABLE = re.compile(r"\$\{([^}]*)\}")
_LITERALS = {"*": "*", "?": "?", "$": "$"}


def _to_regex_source(pattern: str) -> str:
    return "".join({"*": ".*", "?": "."}.get(char, re.escape(char)) for char in pattern)


@lru_cache(maxsize=16384)
def _compile_pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(_to_regex_source(pattern), re.DOTALL)


@dataclass(frozen=True)
class _Texts:
    """Compares strings in a policy, which may contain variables, with values in a request."""

    request: Request
    variables: bool

    def matches_pattern(self, value: str, pattern: str) -> bool:
        """Match a value against a pattern. The values of variables match literally; a variable without a value matches
        nothing.
        """
        if not self.variables or "${" not in pattern:
            return _compile_pattern(pattern).fullmatch(value) is not None
        try:
            parts = [
                re.escape(self._read_variable(part)) if index % 2 else _to_regex_source(part)
                for index, part in enumerate(_VARIABLE.split(pattern))
            ]
        except _NoValue:
            return False
        return re.fullmatch("".join(parts), value, re.DOTALL) is not None

    def substitute_variables(self, text: str) -> str:
        return _VARIABLE.sub(lambda match: self._read_variable(match[1]), text) if self.variables else text

    def _read_variable(self, variable: str) -> str:
        """Return a variable's value, or its default: ${aws:PrincipalTag/team, 'none'}."""
        if variable in _LITERALS:
            return _LITERALS[variable]
        name, comma, default = variable.partition(",")
        value = self.request.keys.get(name.strip().lower())
        if value is None and comma:
            return default.strip().strip("'")
        if value is None:
            raise _NoValue(name)
        if not isinstance(value, str):
            raise UnknownPolicyElement(f"policy variable {name} has several values")
        return value
