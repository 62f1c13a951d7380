"""`plan` shows one result per topic of rules. The result is unknown if a query that the topic's rules read failed."""

from dataclasses import replace
from typing import Any

import pytest

from infra import validation
from infra.checks import rules
from infra.checks.model import Answer
from infra.facts.model import Facts
from infra.facts.queries import Query
from infra.inventory.bill import compute_bill
from infra.preflight import Examined
from infra.settings.stack import Settings
from tests.pure.bill_world import make_price, make_prices
from tests.pure.world import account_facts, ec2_settings, existing_network, pool, settings


def list_answers(stack: Settings, reported: Facts | None) -> dict[str, Answer]:
    problems = validation.run_rules(stack, reported)
    errors = tuple(problem for problem in problems if problem.is_error)
    warnings = tuple(problem for problem in problems if not problem.is_error)
    examined = Examined(stack, reported, errors, None if reported else "only the file was checked", warnings)
    return {answer.check: answer for answer in rules.check_topics(examined)}


@pytest.mark.parametrize("stack", [settings(pool()), ec2_settings(), settings(pool(), network=existing_network())])
def test_every_check_passes_for_a_valid_stack(stack: Settings) -> None:
    assert {answer.verdict for answer in list_answers(stack, account_facts(stack)).values()} == {"yes"}


def test_insufficient_quota_fails_the_check_and_shows_the_command_to_request_an_increase() -> None:
    stack = settings(pool(instance_type="p5.48xlarge", desiredSize=1))
    answer = list_answers(stack, account_facts(stack, quotas={"L-417A185B": 0.0}))["vCPU quotas"]
    assert answer.verdict == "no"
    assert "request-service-quota-increase" in answer.sentences[0]


def test_quota_below_maximum_size_is_a_warning() -> None:
    stack = settings(pool(instance_type="p5.48xlarge", maxSize=4))
    answer = list_answers(stack, account_facts(stack, quotas={"L-417A185B": 192.0, "L-1216C47A": 100.0}))["vCPU quotas"]
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
def test_failed_query_makes_its_check_unknown_regardless_of_the_message(query: Query, check: str) -> None:
    sentence = "reworded: ada may not call it"
    key = "arn:aws:kms:us-west-2:123456789012:key/1"
    stack = settings(pool(), storage={"fsx": {"dataRepository": {"path": "s3://data"}, "kmsKeyArn": key}})
    by_topic = list_answers(stack, account_facts(stack, unchecked={query: (sentence,)}))
    assert (by_topic[check].verdict, by_topic[check].sentences) == ("unknown", (sentence,))
    assert {answer.verdict for name, answer in by_topic.items() if name != check} == {"yes"}


def test_failed_query_does_not_hide_a_problem() -> None:
    stack = settings(pool(instance_type="p5.48xlarge", desiredSize=1))
    reported = account_facts(stack, quotas={"L-417A185B": 0.0}, unchecked={Query.VCPUS_IN_USE: ("not read",)})
    assert list_answers(stack, reported)["vCPU quotas"].verdict == "no"


def test_every_aws_check_is_unknown_without_facts() -> None:
    by_topic = list_answers(settings(pool()), None)
    assert by_topic.pop("stack file").verdict == "yes"
    assert {answer.verdict for answer in by_topic.values()} == {"unknown"}


def test_invalid_stack_file_fails_the_check() -> None:
    stack = settings(pool("a"), pool("a"))
    assert list_answers(stack, account_facts(stack))["stack file"].verdict == "no"


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


def find_problems(budget: dict[str, Any], **more: Any) -> list[tuple[str, str]]:
    stack = settings(P4D, budget=budget)
    reported = account_facts(stack, **{"prices": make_prices(), **more})
    return [(problem.severity, str(problem)) for problem in validation.run_rules(stack, reported)]


def test_a_stack_over_budget_is_refused() -> None:
    assert find_problems(TOO_LITTLE) == [("error", HOURLY), ("error", MONTHLY)]


def test_budget_with_action_warn_only_warns() -> None:
    assert find_problems({**TOO_LITTLE, "action": "warn"}) == [("warning", HOURLY), ("warning", MONTHLY)]


def test_a_stack_exactly_at_its_budget_is_accepted() -> None:
    assert find_problems({"maxHourly": 88.35, "maxMonthly": 32_341.82}) == []


def test_unknown_price_is_refused_because_the_budget_may_be_exceeded() -> None:
    lacking = replace(make_prices(), instances={"m7i.large": make_price("0.1008")})
    message = (
        "budget.maxHourly: cannot be checked without the price of p4d.24xlarge in us-west-2. "
        "Set action: warn to ignore unknown prices."
    )
    assert find_problems({"maxHourly": 1000}, prices=lacking) == [("error", message)]


def test_known_part_of_a_bill_alone_may_exceed_the_budget() -> None:
    lacking = replace(make_prices(), instances={"p4d.24xlarge": make_price("21.95764")})
    assert "costs at least 88.04" in find_problems({"maxHourly": 40}, prices=lacking)[0][1]


def test_offline_budget_check_uses_the_price_snapshot() -> None:
    stack = settings(P4D, budget=TOO_LITTLE)
    (answer,) = rules.check_budget(stack, compute_bill(stack, None, make_prices()))
    assert (answer.verdict, answer.sentences) == ("no", (HOURLY, MONTHLY))
