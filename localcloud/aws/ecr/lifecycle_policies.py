"""Lifecycle policies: https://docs.aws.amazon.com/AmazonECR/latest/userguide/lifecycle_policy_parameters.html"""

import json
from collections.abc import Iterator
from typing import Any

from localcloud.aws.call import Call
from localcloud.aws.ecr.repositories import build_invalid_parameter_error
from localcloud.aws.patching import operation

_MOST_RULES = 50
"""https://docs.aws.amazon.com/AmazonECR/latest/userguide/service-quotas.html"""


@operation("ecr", "PutLifecyclePolicy")
def _put_lifecycle_policy(call: Call) -> dict[str, Any]:
    """https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_PutLifecyclePolicy.html"""
    call.backend._get_repository(call.params["repositoryName"], call.params.get("registryId"))
    text = call.params["lifecyclePolicyText"]
    for problem in _find_problems(_read_rules(text)):
        raise build_invalid_parameter_error("LifecyclePolicyText", f"Lifecycle policy validation failure: {problem}")
    return call.moto()


def _read_rules(text: str) -> list[dict[str, Any]]:
    """Return the policy's rules, or an empty list if the text has the wrong structure: moto then rejects it."""
    try:
        policy = json.loads(text)
    except ValueError:
        return []
    rules = policy.get("rules") if isinstance(policy, dict) else None
    return rules if isinstance(rules, list) and all(isinstance(rule, dict) for rule in rules) else []


def _find_problems(rules: list[dict[str, Any]]) -> Iterator[str]:
    """Yield problems that moto does not find. moto already checks for missing and unknown properties and for invalid
    enum values.
    """
    if len(rules) > _MOST_RULES:
        yield f"a policy can have at most {_MOST_RULES} rules"
    priorities: list[Any] = [rule.get("rulePriority") for rule in rules]
    if not all(isinstance(priority, int) and priority > 0 for priority in priorities):
        yield "rulePriority must be a positive integer"
        return
    if len(set(priorities)) < len(priorities):
        yield "rulePriority must be unique"
    for rule in rules:
        selection = rule.get("selection")
        if not isinstance(selection, dict) or not isinstance(rule.get("action"), dict):
            yield "selection and action must be objects"
            return
        if selection.get("tagStatus") == "any" and rule["rulePriority"] != max(priorities):
            yield "a rule with tagStatus any must have the highest rulePriority"
        yield from _find_selection_problems(selection)


def _find_selection_problems(selection: dict[str, Any]) -> Iterator[str]:
    lists = [name for name in ("tagPatternList", "tagPrefixList") if selection.get(name)]
    if selection.get("tagStatus") == "tagged" and len(lists) != 1:
        yield "tagStatus tagged requires either tagPatternList or tagPrefixList"
    if selection.get("tagStatus") != "tagged" and lists:
        yield f"{lists[0]} requires tagStatus tagged"
    by_age = selection.get("countType") == "sinceImagePushed"
    if by_age != ("countUnit" in selection):
        yield "countUnit is required with countType sinceImagePushed, and not allowed with imageCountMoreThan"
    if not isinstance(selection.get("countNumber"), int):
        yield "countNumber must be an integer"
