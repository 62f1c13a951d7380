"""Rules for the permissions boundary of the stack's roles."""

import re
from collections.abc import Iterator
from typing import Final

from infra.config.messages import format_value
from infra.config.problems import Problem
from infra.facts.model import Facts
from infra.facts.queries import Query
from infra.settings.stack import Settings
from infra.validation.registry import Topic, register_rule

PATH: Final = "permissionsBoundary"
OWNER_OF_MANAGED_POLICIES: Final = "aws"
"""Account in the ARNs of AWS's managed policies."""
_POLICY = re.compile(r"arn:aws[a-z-]*:iam::([0-9]{12}|aws):policy/[\w+=,.@/-]+")


@register_rule()
def check_boundary_arn(settings: Settings) -> Iterator[Problem]:
    arn = settings.permissions_boundary
    if arn is not None and not _POLICY.fullmatch(arn):
        example = "arn:aws:iam::123456789012:policy/gpumpi-boundary"
        yield Problem(PATH, f"{format_value(arn)} is not the ARN of a managed IAM policy. Use one such as {example}.")


@register_rule(Topic.BOUNDARY, reads=(Query.CALLER,), applies=lambda settings: settings.permissions_boundary is not None)
def check_boundary_belongs_to_account(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """Check the partition and the account: IAM accepts only a policy of the role's own account, or one of AWS."""
    arn = settings.permissions_boundary
    if arn is None or not _POLICY.fullmatch(arn):
        return
    _, partition, _, _, account, _ = arn.split(":", 5)
    if partition != facts.partition:
        fix = f"Use an ARN of that partition (arn:{facts.partition}:...)."
        yield Problem(PATH, f"{format_value(arn)} is in partition {partition}, but {facts.region} is in {facts.partition}. {fix}")
    elif account not in (facts.caller.account, OWNER_OF_MANAGED_POLICIES):
        fix = "Create the policy in the stack's account, and use its ARN."
        yield Problem(PATH, f"{format_value(arn)} is in account {account}, not in {facts.caller.account}. {fix}")
