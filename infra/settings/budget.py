"""`gpumpi:budget`: limits for the cost of the stack."""

from typing import Literal

from pydantic import Field

from infra.config.models import Model


class Budget(Model):
    """Limits that `scripts/cluster plan` and `pulumi up` compare with the stack's bill."""

    max_hourly: float | None = Field(
        None,
        gt=0,
        description="Maximum cost in USD per hour with every pool at `maxSize`, excluding usage such as traffic. "
        "Change: in place.",
    )
    max_monthly: float | None = Field(
        None,
        gt=0,
        description="Maximum cost in USD for 730 hours with the pools at their configured size. Change: in place.",
    )
    action: Literal["refuse", "warn"] = Field(
        "refuse",
        description="`refuse` stops `pulumi up` if the stack exceeds the budget or a price is unknown; `warn` prints a warning. "
        "Change: in place.",
    )

    @property
    def is_set(self) -> bool:
        return self.max_hourly is not None or self.max_monthly is not None
