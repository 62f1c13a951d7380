"""The date that rules compare with AWS's dates, such as the end of support for a Kubernetes version."""

import os
from datetime import UTC, date, datetime
from typing import Final

VARIABLE: Final = "GPUMPI_TODAY"
"""Environment variable that replaces today's date, such as 2026-11-28: tests must not depend on the day they run."""


def today() -> date:
    """Raises ValueError if the variable is not a date."""
    fixed = os.environ.get(VARIABLE)
    return date.fromisoformat(fixed) if fixed else datetime.now(UTC).date()
