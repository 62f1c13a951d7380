"""The date that rules compare with AWS's dates, such as the end of support for a Kubernetes version."""

import os
from datetime import UTC, date, datetime
from typing import Final

from infra.config.messages import shown
from infra.config.problems import Problem, SettingsError

VARIABLE: Final = "GPUMPI_TODAY"
"""Environment variable that replaces today's date, such as 2026-11-28: tests must not depend on the day they run."""


def today() -> date:
    """Raises SettingsError if the variable is not a date."""
    fixed = os.environ.get(VARIABLE)
    try:
        return date.fromisoformat(fixed) if fixed else datetime.now(UTC).date()
    except ValueError:
        fix = "Use one such as 2026-11-28, or unset the variable."
        raise SettingsError([Problem(VARIABLE, f"{shown(fixed)} is not a date. {fix}")]) from None
