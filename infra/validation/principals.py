"""Checks of IAM users and roles that get access to an EKS cluster."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from infra.config.messages import format_value
from infra.config.problems import Problem, create_warning
from infra.facts.model import Facts

EXAMPLE: Final = "arn:aws:iam::123456789012:role/Admin"
_PRINCIPAL: Final = re.compile(r"arn:aws[a-z-]*:iam::[0-9]{12}:(user|role)/[\w+=,.@/-]+")
_SESSION: Final = re.compile(r"arn:(aws[a-z-]*):sts::([0-9]{12}):assumed-role/([^/]+)/.*")


def check_principal_arn(where: str, arn: str) -> Iterator[Problem]:
    """Check that EKS accepts the ARN in an access entry: neither root nor a role session."""
    session = _SESSION.fullmatch(arn)
    if session:
        role = f"arn:{session[1]}:iam::{session[2]}:role/{session[3]}"
        yield Problem(where, f"{format_value(arn)} is a role session. Use the ARN of the role, such as {role}.")
    elif not _PRINCIPAL.fullmatch(arn):
        yield Problem(where, f"{format_value(arn)} is not the ARN of an IAM user or role. Use one such as {EXAMPLE}.")


def check_principal_exists(where: str, arn: str, facts: Facts, reported: Mapping[str, str]) -> Iterator[Problem]:
    """Check that the user or role exists: EKS accepts an access entry only with the exact ARN of an existing principal.

    `reported` maps the ARNs of this account that could be read to the ARNs in IAM."""
    principal = _PRINCIPAL.fullmatch(arn)
    if principal is None:
        return
    _, partition, _, _, account, _ = arn.split(":", 5)
    if partition != facts.partition:
        fix = f"Use an ARN of that partition (arn:{facts.partition}:...)."
        yield Problem(
            where, f"{format_value(arn)} is in partition {partition}, but {facts.region} is in {facts.partition}. {fix}"
        )
    elif account != facts.caller.account:
        elsewhere = f"is in account {account}, not in {facts.caller.account}, so it was not checked"
        yield create_warning(where, f"{format_value(arn)} {elsewhere}. Make sure that it exists: otherwise EKS rejects it.")
    elif arn in facts.not_found:
        yield Problem(
            where, f"{format_value(arn)} does not exist in account {account}. Create the {principal[1]}, or remove the ARN."
        )
    elif reported.get(arn, arn) != arn:
        yield Problem(where, f"{format_value(arn)} has a different path in IAM. Use {reported[arn]}.")
