"""IAM policy language: validation of policy documents, and evaluation of requests.

https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_grammar.html,
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html
"""

import fnmatch
import ipaddress
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Effect = Literal["Allow", "Deny"]

_ELEMENTS = {"Sid", "Effect", "Principal", "NotPrincipal", "Action", "NotAction", "Resource", "NotResource", "Condition"}


class InvalidPolicy(Exception):
    """Invalid policy document. The message is AWS's error message."""


def parse(text: str) -> dict[str, Any]:
    """Parse a policy and check the general grammar. Each service checks which elements it requires."""
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
    if not statements(document):
        raise InvalidPolicy("Missing required field Statement")
    for statement in statements(document):
        _check_statement(statement)
    sids = [statement["Sid"] for statement in statements(document) if statement.get("Sid")]
    if len(sids) != len(set(sids)):
        raise InvalidPolicy("Statement IDs (SID) in a single policy must be unique.")
    return document


def statements(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    return _many(document.get("Statement"))


def principals(statement: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the kind and name of each principal: ("AWS", "arn:..."), ("Service", "ec2.amazonaws.com"), ("*", "*")."""
    principal = statement.get("Principal", statement.get("NotPrincipal"))
    if principal == "*":
        yield "*", "*"
    elif isinstance(principal, dict):
        for kind, names in principal.items():
            yield from ((kind, name) for name in _many(names))


def actions(statement: Mapping[str, Any]) -> list[str]:
    return _many(statement.get("Action", statement.get("NotAction")))


def resources(statement: Mapping[str, Any]) -> list[str]:
    return _many(statement.get("Resource", statement.get("NotResource")))


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
    for action in actions(statement):
        if not isinstance(action, str) or not re.fullmatch(r"\*|[a-z0-9-]+:[A-Za-z0-9*?]+", action):
            raise InvalidPolicy("Actions/Conditions must be prefaced by a vendor, e.g., iam, sdb, ec2, etc.")
    for operator, tests in statement.get("Condition", {}).items():
        if _operator(operator) is None or not isinstance(tests, dict):
            raise InvalidPolicy(f"Invalid Condition type : {operator}")


def _many(value: Any) -> list[Any]:
    return [] if value is None else list(value) if isinstance(value, list) else [value]


@dataclass(frozen=True)
class Request:
    """Request to evaluate: principal, action, resource and condition keys."""

    principal: tuple[str, str]
    """Kind and name in the format of `principals`; ("*", "*") for an anonymous caller."""
    action: str
    resource: str = "*"
    context: Mapping[str, str] = field(default_factory=dict)
    """Condition key in lower case -> value, such as `aws:securetransport` -> "true"."""


def decide(document: Mapping[str, Any], request: Request) -> Effect | None:
    """Return Deny if a statement denies the request, else Allow if one allows it, or None if no statement applies."""
    effects = {statement["Effect"] for statement in statements(document) if _applies(statement, request)}
    return "Deny" if "Deny" in effects else "Allow" if "Allow" in effects else None


def _applies(statement: Mapping[str, Any], request: Request) -> bool:
    return (
        _names(statement, "Action", "NotAction", lambda name: _like(request.action.lower(), name.lower()))
        and _names(statement, "Resource", "NotResource", lambda name: _like(request.resource, _filled(name, request)))
        and _applies_to_principal(statement, request)
        and all(_holds(operator, tests, request) for operator, tests in statement.get("Condition", {}).items())
    )


def _names(statement: Mapping[str, Any], element: str, opposite: str, matches: Callable[[str], bool]) -> bool:
    if opposite in statement:
        return not any(matches(name) for name in _many(statement[opposite]))
    return element not in statement or any(matches(name) for name in _many(statement[element]))


def _applies_to_principal(statement: Mapping[str, Any], request: Request) -> bool:
    matches = any(_is_principal(kind, name, request.principal) for kind, name in principals(statement))
    return not matches if "NotPrincipal" in statement else matches or "Principal" not in statement


def _is_principal(kind: str, name: str, who: tuple[str, str]) -> bool:
    if name == "*" and kind in ("*", "AWS"):
        return True
    if kind != who[0]:
        return False
    account = re.fullmatch(r"(?:arn:aws:iam::)?(\d{12})(?::root)?", name)
    return name == who[1] or (account is not None and f"::{account[1]}:" in who[1])


def _filled(text: str, request: Request) -> str:
    """Replace policy variables, such as ${aws:userid}."""
    return re.sub(r"\$\{([^}]+)\}", lambda match: request.context.get(match[1].lower(), ""), text)


def _like(value: str, pattern: str) -> bool:
    return fnmatch.fnmatchcase(value, pattern.replace("[", "[[]"))


_TESTS: dict[str, Callable[[str, str], bool]] = {
    "StringEquals": lambda value, wanted: value == wanted,
    "StringEqualsIgnoreCase": lambda value, wanted: value.lower() == wanted.lower(),
    "StringLike": _like,
    "ArnEquals": _like,
    "ArnLike": _like,
    "Bool": lambda value, wanted: value.lower() == wanted.lower(),
    "NumericEquals": lambda value, wanted: float(value) == float(wanted),
    "NumericLessThan": lambda value, wanted: float(value) < float(wanted),
    "NumericLessThanEquals": lambda value, wanted: float(value) <= float(wanted),
    "NumericGreaterThan": lambda value, wanted: float(value) > float(wanted),
    "NumericGreaterThanEquals": lambda value, wanted: float(value) >= float(wanted),
    "DateLessThan": lambda value, wanted: value < wanted,
    "DateGreaterThan": lambda value, wanted: value > wanted,
    "IpAddress": lambda value, wanted: ipaddress.ip_address(value) in ipaddress.ip_network(wanted, strict=False),
}
_OPPOSITES = {
    "StringNotEquals": "StringEquals",
    "StringNotEqualsIgnoreCase": "StringEqualsIgnoreCase",
    "StringNotLike": "StringLike",
    "ArnNotEquals": "ArnEquals",
    "ArnNotLike": "ArnLike",
    "NumericNotEquals": "NumericEquals",
    "NotIpAddress": "IpAddress",
}


def _operator(name: str) -> tuple[Callable[[str, str], bool], bool] | None:
    """Return the operator's test and whether it is negated, or None for an unknown operator."""
    base = name.split(":")[-1].removesuffix("IfExists")
    if base == "Null":
        return (lambda value, wanted: value == wanted), False
    test = _TESTS.get(_OPPOSITES.get(base, base))
    return None if test is None else (test, base in _OPPOSITES)


def _holds(operator: str, tests: Mapping[str, Any], request: Request) -> bool:
    found = _operator(operator)
    if found is None:
        raise InvalidPolicy(f"Invalid Condition type : {operator}")
    test, opposite = found
    for key, wanted in tests.items():
        value = request.context.get(key.lower())
        texts = [_filled(str(text).lower() if isinstance(text, bool) else str(text), request) for text in _many(wanted)]
        if operator == "Null":
            if (value is None) != (texts == ["true"]):
                return False
        elif value is None:
            if not (opposite or operator.endswith("IfExists")):
                return False
        elif any(test(value, text) for text in texts) == opposite:
            return False
    return True
