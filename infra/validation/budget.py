"""Rules for the budget: the costs of the planned stack must not exceed it."""

from collections.abc import Iterator
from decimal import Decimal

from infra.config.messages import all_of
from infra.config.problems import Problem, Severity
from infra.facts.model import Facts
from infra.inventory.bill import Bill, Total, bill
from infra.settings.stack import Settings


def within(settings: Settings, facts: Facts) -> Iterator[Problem]:
    """Compare the stack's bill with its budget. Skip stacks without a budget, for which no prices are read."""
    if facts.prices is not None and settings.budget.is_set:
        try:
            found = bill(settings, facts, facts.prices)
        except LookupError:  # another rule reports the missing zone or type
            return
        yield from of_bill(settings, found)


def of_bill(settings: Settings, found: Bill) -> Iterator[Problem]:
    """Compare the costs with the budget's limits. Even if some prices are unknown, the known part of the bill may
    exceed a limit."""
    budget = settings.budget
    severity: Severity = "error" if budget.action == "refuse" else "warning"
    maximum, configured = found.total("maximum"), found.total("configured")
    if budget.max_hourly is not None:
        allowed = Decimal(str(budget.max_hourly))
        message = _message(
            maximum, maximum.hourly, allowed, "USD per hour with every pool at maxSize", "Lower maxSize, or raise the budget."
        )
        if message:
            yield Problem("budget.maxHourly", message, severity)
    if budget.max_monthly is not None:
        allowed = Decimal(str(budget.max_monthly))
        message = _message(
            configured,
            configured.monthly,
            allowed,
            "USD per month (730 hours) as configured",
            "Lower desiredSize, or raise the budget.",
        )
        if message:
            yield Problem("budget.maxMonthly", message, severity)


def _message(total: Total, cost: Decimal, allowed: Decimal, what: str, fix: str) -> str | None:
    if round(cost, 2) > round(allowed, 2):
        least = "" if total.is_known else "at least "
        return f"the stack costs {least}{cost:,.2f} {what}, but the budget is {allowed:,.2f}. {fix}"
    if not total.is_known:
        return f"cannot be checked without {all_of(total.unknown)}. Set action: warn to ignore unknown prices."
    return None
