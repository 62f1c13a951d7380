"""Rule for the KMS key that encrypts the nodes' volumes, and evaluation of its key policy."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

from infra.config.messages import join_with_and
from infra.config.problems import Problem, create_warning
from infra.facts.model import EbsKey, Facts
from infra.facts.queries import Query
from infra.settings.stack import Settings
from infra.validation.registry import Topic, register_rule

WHERE: Final = "account"

Verdict = bool | None
"""Whether a key policy allows a request; None if this depends on values that are unknown before the request."""

OPERATIONS: Final = (
    *("CreateGrant", "Decrypt", "DescribeKey", "GenerateDataKeyWithoutPlaintext", "ReEncryptFrom", "ReEncryptTo"),
)
"""https://docs.aws.amazon.com/ebs/latest/userguide/ebs-encryption-requirements.html"""

HOW: Final = "https://docs.aws.amazon.com/autoscaling/ec2/userguide/key-policy-requirements-EBS-encryption.html"


@register_rule(Topic.EBS_KEY, reads=(Query.EBS_KEY,))
def check_default_key(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """Check that Auto Scaling, which launches all nodes, may use the account's default EBS key. A customer managed key
    must allow this use explicitly."""
    key = facts.ebs_key
    if key is None:
        return
    reset = f"`aws ec2 reset-ebs-default-kms-key-id --region {facts.region}`"
    situation = f"EBS encrypts volumes in {facts.region} by default with {key.arn}"
    if key.state != "Enabled":
        yield Problem(WHERE, f"{situation}, but the state of the key is {key.state}. Enable the key, or run {reset}.")
        return
    verdicts = {operation: _may_call(key, operation, facts) for operation in OPERATIONS}
    missing = [operation for operation, verdict in verdicts.items() if verdict is False]
    unclear = [operation for operation, verdict in verdicts.items() if verdict is None]
    if missing:
        effect = f"The key does not allow AWSServiceRoleForAutoScaling to call {join_with_and(missing)}, so no node could start."
        yield Problem(WHERE, f"{situation}. {effect} Extend the key policy as in {HOW}, or run {reset}.")
    elif unclear:
        effect = f"Whether its policy allows AWSServiceRoleForAutoScaling to call {join_with_and(unclear)} depends on conditions."
        yield create_warning(WHERE, f"{situation}. {effect} If nodes fail to launch with Client.InternalError, see {HOW}.")


def _may_call(key: EbsKey, operation: str, facts: Facts) -> Verdict:
    context = {
        "aws:principalaccount": facts.caller.account,
        "aws:principalarn": key.role,
        "kms:calleraccount": facts.caller.account,
        "kms:viaservice": f"ec2.{facts.region}.amazonaws.com",
    }
    if operation == "CreateGrant":
        context["kms:grantisforawsresource"] = "true"
    verdict = evaluate_policy(key.policy, key.role, f"kms:{operation}", context)
    return True if verdict is False and operation in key.grants else verdict


# --- key policies: https://docs.aws.amazon.com/kms/latest/developerguide/policy-evaluation.html

_TESTS: Mapping[str, Callable[[str, str], bool]] = {
    "stringequals": lambda value, pattern: value == pattern,
    "stringlike": fnmatchcase,
    "arnequals": fnmatchcase,
    "arnlike": fnmatchcase,
    "bool": lambda value, pattern: value == pattern.lower(),
}


def evaluate_policy(policy: Mapping[str, Any], principal: str, action: str, context: Mapping[str, str]) -> Verdict:
    """Return whether the policy itself allows the action. `context` maps lowercase condition keys to values.

    Statements for the account's root do not count: they delegate the decision to IAM policies.
    """
    statements = [statement for statement in _as_list(policy.get("Statement")) if _covers_action(statement, action)]

    def match_statements(effect: str) -> Verdict:
        return _combine_with_or(_match_statement(each, principal, context) for each in statements if each.get("Effect") == effect)

    denied, allowed = match_statements("Deny"), match_statements("Allow")
    if denied or allowed is False:
        return False
    return None if denied is None else allowed


def _match_statement(statement: Mapping[str, Any], principal: str, context: Mapping[str, str]) -> Verdict:
    conditions = [
        _evaluate_condition(operator.lower(), key.lower(), _as_list(patterns), context)
        for operator, tests in statement.get("Condition", {}).items()
        for key, patterns in tests.items()
    ]
    return _combine_with_and([_match_principal(statement, principal), *conditions])


def _match_principal(statement: Mapping[str, Any], principal: str) -> Verdict:
    if "NotPrincipal" in statement:
        return None
    element = statement.get("Principal")
    names = _as_list(element.get("AWS") if isinstance(element, Mapping) else element)
    account = principal.split(":")[4]
    everyone = {"*", principal}
    if statement.get("Effect") == "Deny":
        everyone |= {account, principal.partition(":iam:")[0] + f":iam::{account}:root"}
    return bool(everyone.intersection(names))


def _covers_action(statement: Mapping[str, Any], action: str) -> bool:
    element = "NotAction" if "NotAction" in statement else "Action"
    matches = any(fnmatchcase(action.lower(), pattern.lower()) for pattern in _as_list(statement.get(element)))
    return matches == (element == "Action")


def _evaluate_condition(operator: str, key: str, patterns: list[str], context: Mapping[str, str]) -> Verdict:
    test, value = _TESTS.get(operator.removesuffix("ifexists")), context.get(key)
    if test is None or value is None:
        return None
    return any(test(value, str(pattern)) for pattern in patterns)


def _combine_with_or(verdicts: Iterable[Verdict]) -> Verdict:
    values = set(verdicts)
    return True if True in values else None if None in values else False


def _combine_with_and(verdicts: Iterable[Verdict]) -> Verdict:
    values = set(verdicts)
    return False if False in values else None if None in values else True


def _as_list(value: Any) -> list[Any]:
    return [] if value is None else list(value) if isinstance(value, list) else [value]
