"""Rules for the budget: the costs of the planned stack must not exceed it."""

from collections.abc import Iterator
from decimal import Decimal

from infra.config.messages import join_with_and
from infra.config.problems import Problem, Severity
from infra.facts.model import Facts
from infra.facts.queries import Query
from infra.inventory.bill import Bill, Total, compute_bill
from infra.settings.stack import Settings
from infra.validation.registry import Topic, register_rule


@register_rule(Topic.BUDGET, reads=(Query.PRICES,), applies=lambda settings: settings.budget.is_set)
def check_budget(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """Compare the stack's bill with its budget."""
    if facts.prices is None:
        return
    try:
        planned = compute_bill(settings, facts, facts.prices)
    except LookupError:  # another rule reports the missing zone or type
        return
    yield from compare_with_budget(settings, planned)


def compare_with_budget(settings: Settings, planned: Bill) -> Iterator[Problem]:
    """Compare the costs with the budget's limits. Even if some prices are unknown, the known part of the bill may
    exceed a limit."""
    budget = settings.budget
    severity: Severity = "error" if budget.action == "refuse" else "warning"
    maximum, configured = planned.total("maximum"), planned.total("configured")
    if budget.max_hourly is not None:
        allowed = Decimal(str(budget.max_hourly))
        unit, fix = "USD per hour with every pool at maxSize", "Lower maxSize, or raise the budget."
        if message := _describe_excess(maximum, maximum.hourly, allowed, unit, fix):
            yield Problem("budget.maxHourly", message, severity)
    if budget.max_monthly is not None:
        allowed = Decimal(str(budget.max_monthly))
        unit, fix = "USD per month (730 hours) as configured", "Lower desiredSize, or raise the budget."
        if message := _describe_excess(configured, configured.monthly_cost, allowed, unit, fix):
            yield Problem("budget.maxMonthly", message, severity)


def _describe_excess(total: Total, cost: Decimal, allowed: Decimal, unit: str, fix: str) -> str | None:
    if round(cost, 2) > round(allowed, 2):
        bound = "" if total.is_known else "at least "
        return f"the stack costs {bound}{cost:,.2f} {unit}, but the budget is {allowed:,.2f}. {fix}"
    if not total.is_known:
        return f"cannot be checked without {join_with_and(total.unknown)}. Set action: warn to ignore unknown prices."
    return None
