"""`progress` of a job: how the job controller reads the job's steps, and how long a step may take."""

import re
from typing import Final

from pydantic import Field

from infra.config.models import Model
from infra.jobs.in_pods import PROGRESS_PATTERN

_UNITS: Final = {"s": 1, "m": 60, "h": 3600}
_PART: Final = re.compile(r"(\d+)([smh])")


class Progress(Model):
    """Settings for how the job controller reads the steps of a job."""

    pattern: str | None = Field(
        None,
        examples=["'step (\\d+)'"],
        description="Python regular expression that finds the step number in a line of the job's log, in the group `step` or, "
        "without such a group, in the first group. If carriage returns divide a line, as in progress bars, the last part with a "
        "step counts. Further groups are optional: `saved`, the seconds that the last checkpoint "
        "took; `slowest`, the rank that computed longest, and `ratio`, its time divided by the median of all ranks.",
    )
    file: str | None = Field(
        None,
        examples=["/shared/step"],
        description="Alternative to `pattern`: file on a volume of the job to which a rank writes the step number.",
    )
    within: str = Field(
        examples=["10m"],
        description="Maximum time between two steps, including checkpoints and evaluations, such as `90s`, `10m` or `1h`; at "
        "least `30s`. If a step takes longer, the job restarts.",
    )

    @property
    def found_by(self) -> str:
        """Regular expression that finds the step in a line of the log."""
        return self.pattern if self.pattern is not None else PROGRESS_PATTERN


def seconds_of(duration: str) -> int:
    """Return a duration in seconds. Raises ValueError if the text is not a duration.

    >>> seconds_of("90s"), seconds_of("1h30m")
    (90, 5400)
    """
    parts = _PART.findall(duration)
    if not parts or "".join(number + unit for number, unit in parts) != duration:
        raise ValueError(duration)
    return sum(int(number) * _UNITS[unit] for number, unit in parts)
