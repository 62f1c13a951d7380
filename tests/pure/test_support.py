"""Upgrade policy of the EKS control plane."""

from typing import Any

import pytest

from infra.facts.model import Existing
from infra.plan.eks_versions import choose_support_type
from tests.pure.world import account_facts, settings


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "STANDARD"),
        ({"extended_support": frozenset({"1.33"})}, "STANDARD"),
        ({"extended_support": frozenset({"1.35"})}, "EXTENDED"),  # EKS rejects STANDARD for versions in extended support
        ({"existing": Existing("1.35", support_type="EXTENDED")}, "EXTENDED"),
        ({"existing": Existing("1.35", support_type="STANDARD"), "extended_support": frozenset({"1.35"})}, "STANDARD"),
    ],
    ids=["new", "new, other version in extended support", "new, in extended support", "existing extended", "existing standard"],
)
def test_new_clusters_get_standard_support_and_existing_clusters_keep_their_type(fields: dict[str, Any], expected: str) -> None:
    stack = settings()
    assert choose_support_type(stack, account_facts(stack, **fields)) == expected
