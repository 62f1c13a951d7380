"""Convert the findings of `plan` to JSON and to an exit code."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from cli.console import to_json
from cli.exit_codes import NOT_RUN, OK, REFUSED
from cli.stacks.plan.changes import Changes
from infra.checks.model import Answer, build_unknown_answer
from infra.inventory.bill import LEVELS, Bill, Line, Total

PREVIEW = "pulumi preview"
NOTE = "AWS does not report whether on-demand or spot capacity is available."


@dataclass(frozen=True)
class Report:
    """Everything that `plan` prints."""

    heading: str
    stack: str
    region: str
    answers: Sequence[Answer]
    bill: Bill | None
    """None if errors in the stack file make a plan impossible."""
    changes: Changes
    has_unreserved: bool = True
    """Whether a pool uses unreserved capacity. AWS does not report whether such capacity is available."""

    @property
    def refused_answers(self) -> list[Answer]:
        return [answer for answer in self.answers if answer.verdict == "no"]

    @property
    def unknown(self) -> list[Answer]:
        """Return the checks with an unknown result.

        A failed preview counts as one, because it may hide the replacement of nodes or files.
        """
        preview = [build_unknown_answer(PREVIEW, self.changes.not_previewed)] if self.changes.failed else []
        return [*preview, *(answer for answer in self.answers if answer.verdict == "unknown")]

    def code(self, *, strict: bool) -> int:
        if self.refused_answers:
            return REFUSED
        return NOT_RUN if strict and (self.unknown or not self._is_cost_known) else OK

    @property
    def _is_cost_known(self) -> bool:
        return self.bill is not None and all(self.bill.total(level).is_known for level in LEVELS)

    def as_json(self, *, strict: bool) -> dict[str, object]:
        code = self.code(strict=strict)
        return {
            "stack": self.stack,
            "region": self.region,
            "ok": code == OK,
            "exitCode": code,
            "changes": self.changes.as_json(),
            "unknown": [answer.check for answer in self.unknown],
            "checks": to_json(self.answers),
            "cost": None if self.bill is None else bill_as_json(self.bill),
        }


def bill_as_json(bill: Bill) -> Mapping[str, object]:
    prices = bill.prices
    return {
        "currency": "USD",
        "prices": {
            "source": prices.kind,
            "date": bill.date,
            "verified": not bill.has_unverified_prices,
            "missing": prices.missing,
        },
        "totals": {level: _total_as_json(bill.total(level)) for level in LEVELS},
        "lines": [_line_as_json(line) for line in bill.lines],
        "usage": [
            {"name": line.name, "unit": line.unit, "usd": None if line.price is None else float(line.price.usd)}
            for line in bill.usage
        ],
    }


def _total_as_json(total: Total) -> dict[str, object]:
    return {
        "usdPerHour": _round_amount(total.hourly, 4) if total.is_known else None,
        "usdPerMonth": _round_amount(total.monthly_cost, 2) if total.is_known else None,
        "knownUsdPerHour": _round_amount(total.hourly, 4),
        "unknown": list(total.unknown),
    }


def _line_as_json(line: Line) -> dict[str, object]:
    amounts = {level: line.hourly_cost(level) for level in LEVELS}
    return {
        "name": line.name,
        "group": line.group,
        "counts": None if line.counts is None else dict(line.counts._asdict()),
        "usdPerHour": {level: None if amount is None else _round_amount(amount, 6) for level, amount in amounts.items()},
        "prepaid": line.prepaid,
    }


def _round_amount(amount: Decimal, digits: int) -> float:
    return float(round(amount, digits))
