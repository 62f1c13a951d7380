"""`plan` shows one result per topic of rules. The result is unknown if a query that the topic's rules read failed."""

from dataclasses import replace
from typing import Any

import pytest

from infra import validation
from infra.checks import rules
from infra.checks.model import Answer
from infra.facts.model import Facts
from infra.facts.queries import Query
from infra.inventory.bill import bill
from infra.preflight import Examined
from infra.settings.stack import Settings
from tests.pure.bill_world import price, prices
from tests.pure.world import existing_network, facts, plain_settings, pool, settings


def answers(stack: Settings, reported: Facts | None) -> dict[str, Answer]:
    problems = validation.check(stack, reported)
    errors = tuple(problem for problem in problems if problem.is_error)
    warnings = tuple(problem for problem in problems if not problem.is_error)
    examined = Examined(stack, reported, errors, None if reported else "only the file was checked", warnings)
    return {answer.check: answer for answer in rules.answers(examined)}


@pytest.mark.parametrize("stack", [settings(pool()), plain_settings(), settings(pool(), network=existing_network())])
def test_every_check_of_a_stack_without_problems_is_yes(stack: Settings) -> None:
    assert {answer.verdict for answer in answers(stack, facts(stack)).values()} == {"yes"}


def test_too_small_quota_is_a_no_with_the_command_that_requests_an_increase() -> None:
    stack = settings(pool(instance_type="p5.48xlarge", desiredSize=1))
    answer = answers(stack, facts(stack, quotas={"L-417A185B": 0.0}))["vCPU quotas"]
    assert answer.verdict == "no"
    assert "request-service-quota-increase" in answer.sentences[0]


def test_quota_below_maximum_size_is_a_warning() -> None:
    stack = settings(pool(instance_type="p5.48xlarge", maxSize=4))
    answer = answers(stack, facts(stack, quotas={"L-417A185B": 192.0, "L-1216C47A": 100.0}))["vCPU quotas"]
    assert (answer.verdict, len(answer.warnings)) == ("yes", 1)


@pytest.mark.parametrize(
    ("query", "check"),
    [
        (Query.VCPU_QUOTAS, "vCPU quotas"),
        (Query.VCPUS_IN_USE, "vCPU quotas"),
        (Query.KUBERNETES_VERSIONS, "Kubernetes version and add-ons"),
        (Query.ADMINS, "cluster admins"),
        (Query.BUCKET, "bucket linked to FSx"),
        (Query.LUSTRE_KEY, "key of FSx"),
        (Query.EBS_KEY, "default key of EBS"),
    ],
)
def test_failed_query_makes_its_check_unknown_whatever_the_reason_says(query: Query, check: str) -> None:
    sentence = "reworded: ada may not call it"
    key = "arn:aws:kms:us-west-2:123456789012:key/1"
    stack = settings(pool(), storage={"fsx": {"dataRepository": {"path": "s3://data"}, "kmsKeyArn": key}})
    by_topic = answers(stack, facts(stack, unchecked={query: (sentence,)}))
    assert (by_topic[check].verdict, by_topic[check].sentences) == ("unknown", (sentence,))
    assert {answer.verdict for name, answer in by_topic.items() if name != check} == {"yes"}


def test_failed_query_does_not_hide_a_problem() -> None:
    stack = settings(pool(instance_type="p5.48xlarge", desiredSize=1))
    reported = facts(stack, quotas={"L-417A185B": 0.0}, unchecked={Query.VCPUS_IN_USE: ("not read",)})
    assert answers(stack, reported)["vCPU quotas"].verdict == "no"


def test_every_check_of_aws_is_unknown_without_facts() -> None:
    by_topic = answers(settings(pool()), None)
    assert by_topic.pop("stack file").verdict == "yes"
    assert {answer.verdict for answer in by_topic.values()} == {"unknown"}


def test_mistake_in_the_file_is_a_no() -> None:
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
    reported = facts(stack, **{"prices": prices(), **more})
    return [(problem.severity, str(problem)) for problem in validation.check(stack, reported)]


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
    (answer,) = rules.check_budget(stack, bill(stack, None, prices()))
    assert (answer.verdict, answer.sentences) == ("no", (HOURLY, MONTHLY))
