"""`plan` groups the rules of `validate` into checks. Each rule belongs to one check. A check's result is unknown if
data that the check needs could not be read.
"""

from dataclasses import replace
from typing import Any

import pytest

from infra import validation
from infra.checks import of_rules
from infra.checks.model import Answer
from infra.config.preflight import Examined
from infra.facts import Facts
from infra.inventory.bill import bill
from infra.settings.stack import Settings
from tests.pure.bill_world import price, prices
from tests.pure.world import existing_network, facts, plain_settings, pool, settings


def answers(of: Settings, known: Facts | None) -> dict[str, Answer]:
    found = validation.check(of, known) if known else validation.check_offline(of)
    errors = tuple(one for one in found if one.is_error)
    warnings = tuple(one for one in found if not one.is_error)
    examined = Examined(of, known, errors, None if known else "only the file was checked", warnings)
    return {one.check: one for one in of_rules.answers(examined)}


def test_every_rule_that_needs_facts_is_in_one_check() -> None:
    grouped = [rule for group in of_rules.GROUPS for rule in group.rules]
    rules = (*validation.WITH_FACTS, *validation.WITH_FACTS_EKS, *validation.WITH_FACTS_EC2)
    assert sorted(map(repr, grouped)) == sorted(map(repr, rules))


@pytest.mark.parametrize("stack", [settings(pool()), plain_settings(), settings(pool(), network=existing_network())])
def test_a_stack_without_problems_gets_only_yes(stack: Settings) -> None:
    found = answers(stack, facts(stack))
    assert {one.verdict for one in found.values()} == {"yes"}


def test_a_quota_that_is_too_small_is_a_no_with_the_request_that_raises_it() -> None:
    stack = settings(pool(instance_type="p5.48xlarge", desiredSize=1))
    found = answers(stack, facts(stack, quotas={"L-417A185B": 0.0}))["vCPU quotas"]
    assert found.verdict == "no"
    assert "request-service-quota-increase" in found.sentences[0]


def test_a_quota_that_covers_what_is_created_but_not_the_maximum_is_a_warning() -> None:
    stack = settings(pool(instance_type="p5.48xlarge", maxSize=4))
    found = answers(stack, facts(stack, quotas={"L-417A185B": 192.0, "L-1216C47A": 100.0}))["vCPU quotas"]
    assert (found.verdict, len(found.warnings)) == ("yes", 1)


@pytest.mark.parametrize(
    ("sentence", "check"),
    [
        ("vCPU quotas: ada may not call servicequotas:GetServiceQuota", "vCPU quotas"),
        ("Kubernetes versions: ada may not call eks:DescribeClusterVersions", "Kubernetes version and add-ons"),
        ("bucket data: ada may not call s3:ListBucket", "bucket linked to FSx"),
        ("key of FSx arn:aws:kms:us-west-2:123456789012:key/1: ada may not call kms:DescribeKey", "key of FSx"),
        ("whether Auto Scaling may use the default key of EBS: ada may not call kms:DescribeKey", "default key of EBS"),
    ],
)
def test_what_could_not_be_read_is_unknown_and_not_yes(sentence: str, check: str) -> None:
    key = "arn:aws:kms:us-west-2:123456789012:key/1"
    stack = settings(pool(), storage={"fsx": {"dataRepository": {"path": "s3://data"}, "kmsKeyArn": key}})
    found = answers(stack, facts(stack, unchecked=(sentence,)))[check]
    assert (found.verdict, found.sentences) == ("unknown", (sentence,))


def test_without_facts_every_check_of_aws_is_unknown() -> None:
    found = answers(settings(pool()), None)
    assert found.pop("stack file").verdict == "yes"
    assert {one.verdict for one in found.values()} == {"unknown"}


def test_a_mistake_in_the_file_is_a_no() -> None:
    stack = settings(pool("a"), pool("a"))
    assert answers(stack, facts(stack))["stack file"].verdict == "no"


# --- budget -------------------------------------------------------------------------------------------------------------

P4D = pool(instance_type="p4d.24xlarge", desiredSize=2, maxSize=4)
TOO_LITTLE = {"maxHourly": 40, "maxMonthly": 30_000}
HOURLY = (
    "budget.maxHourly: the stack costs 88.35 USD per hour with every pool at maxSize, but the budget is 40.00. "
    "Lower maxSize, or raise the budget."
)
MONTHLY = (
    "budget.maxMonthly: the stack costs 32,341.82 USD per month (730 hours) as configured, but the budget is 30,000.00. "
    "Lower desiredSize, or raise the budget."
)


def problems(budget: dict[str, Any], **more: Any) -> list[tuple[str, str]]:
    stack = settings(P4D, budget=budget)
    known = facts(stack, **{"prices": prices(), **more})
    return [(one.severity, str(one)) for one in validation.check(stack, known)]


def test_a_stack_over_budget_is_refused() -> None:
    assert problems(TOO_LITTLE) == [("error", HOURLY), ("error", MONTHLY)]


def test_a_budget_that_only_warns_stops_nothing() -> None:
    assert problems({**TOO_LITTLE, "action": "warn"}) == [("warning", HOURLY), ("warning", MONTHLY)]


def test_a_stack_at_its_budget_is_fine() -> None:
    assert problems({"maxHourly": 88.35, "maxMonthly": 32_341.82}) == []


def test_an_unknown_price_is_refused_because_it_may_exceed_the_budget() -> None:
    lacking = replace(prices(), instances={"m7i.large": price("0.1008")})
    message = (
        "budget.maxHourly: cannot be checked without the price of p4d.24xlarge in us-west-2. "
        "Set action: warn to ignore unknown prices."
    )
    assert problems({"maxHourly": 1000}, prices=lacking) == [("error", message)]


def test_the_known_part_of_a_bill_may_already_exceed_the_budget() -> None:
    lacking = replace(prices(), instances={"p4d.24xlarge": price("21.95764")})
    assert "costs at least 88.04" in problems({"maxHourly": 40}, prices=lacking)[0][1]


def test_a_budget_is_compared_with_the_snapshot_when_offline() -> None:
    stack = settings(P4D, budget=TOO_LITTLE)
    (found,) = of_rules.of_budget(stack, bill(stack, None, prices()))
    assert (found.verdict, found.sentences) == ("no", (HOURLY, MONTHLY))
