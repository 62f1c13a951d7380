"""`progress` of a job: durations, and rules for patterns and files."""

import importlib
import re
from collections.abc import Iterator
from typing import Any, Final

from infra.config.messages import format_value
from infra.config.problems import Problem
from infra.jobs.cluster import ClusterDescription
from infra.jobs.model import Job
from infra.jobs.volumes import find_path_problem, list_writable_paths

LEAST_SECONDS: Final = 30
"""Minimum time limit for a step. The controller reads logs every 5 seconds and may miss a line when a log is rotated,
so a shorter limit would restart healthy jobs."""
PATTERN_LIMIT: Final = 200
_REPEATS: Final = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")
REPEATS_LIMIT: Final = 4
"""Maximum number of unbounded repeats in a pattern. Python may try every way to divide a line among the repeats."""

_UNITS: Final = {"s": 1, "m": 60, "h": 3600}
_DURATION_PART: Final = re.compile(r"(\d+)([smh])")


def parse_seconds(duration: str) -> int:
    """Return a duration in seconds. Raises ValueError if the text is not a duration.

    >>> parse_seconds("90s"), parse_seconds("1h30m")
    (90, 5400)
    """
    parts = _DURATION_PART.findall(duration)
    if not parts or "".join(number + unit for number, unit in parts) != duration:
        raise ValueError(duration)
    return sum(int(number) * _UNITS[unit] for number, unit in parts)


def check_progress_settings(job: Job) -> Iterator[Problem]:
    progress = job.progress
    if progress is None:
        return
    if (progress.pattern is None) == (progress.file is None):
        fault = "has neither pattern nor file" if progress.pattern is None else "has both pattern and file"
        yield Problem("progress", f"{fault}. Set exactly one of them.")
    try:
        seconds = parse_seconds(progress.within)
    except ValueError:
        yield Problem("progress.within", f"{format_value(progress.within)} is not a duration. Use one such as 90s, 10m or 1h30m.")
    else:
        if seconds < LEAST_SECONDS:
            yield Problem("progress.within", f"{format_value(progress.within)} is too short. Use at least {LEAST_SECONDS}s.")
    if progress.pattern is not None and (wrong := find_pattern_problem(progress.pattern)):
        yield Problem("progress.pattern", f"{format_value(progress.pattern)} {wrong}")
    if progress.file is not None and find_path_problem(progress.file):
        yield Problem("progress.file", f"{format_value(progress.file)} is not an absolute path. Use one such as /shared/step.")


def check_progress_file(job: Job, cluster: ClusterDescription) -> Iterator[Problem]:
    """Reject a file that the pod of rank 0 or of the launcher cannot access."""
    path, space = job.progress and job.progress.file, cluster.namespace(job.namespace)
    if not path or find_path_problem(path) or space is None:
        return
    folders = list_writable_paths(job, space)
    if not any(path.startswith(f"{folder.rstrip('/')}/") for folder in folders):
        fix = f"Use a path below {' or '.join(folders)}." if folders else "Add a volume without readOnly to volumes."
        yield Problem("progress.file", f"{format_value(path)} is not on a writable volume of the job. {fix}")


def find_pattern_problem(pattern: str) -> str | None:
    """Return what is wrong with a pattern and how to fix it; None if it is valid.

    >>> find_pattern_problem(r"step (\\d+)")
    >>> find_pattern_problem(r"(\\w+)*step")
    'has nested quantifiers, which can take forever. Use a single quantifier, such as step (\\\\d+).'
    """
    if len(pattern) > PATTERN_LIMIT:
        return f"has {len(pattern)} characters. Use at most {PATTERN_LIMIT}."
    try:
        groups = re.compile(pattern).groups
        parsed: Any = importlib.import_module("re._parser").parse(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        return f"is not a regular expression: {error}. Correct it."
    if not groups:
        return "has no group for the step. Put parentheses around it, such as step (\\d+)."
    unbounded, nested = _count_repeats(parsed, inside=False)
    if nested:
        return "has nested quantifiers, which can take forever. Use a single quantifier, such as step (\\d+)."
    if unbounded > REPEATS_LIMIT:
        return f"has {unbounded} variable-length quantifiers, which can take forever. Use at most {REPEATS_LIMIT}."
    return None


def _count_repeats(parsed: Any, *, inside: bool) -> tuple[int, bool]:
    """Return the number of repeats of variable length, and whether they are nested."""
    number, nested = 0, False
    for operation, argument in parsed:
        is_repeat = str(operation) in _REPEATS and argument[0] != argument[1] and argument[1] != 1
        number += is_repeat
        nested |= is_repeat and inside
        for part in _iterate_subpatterns(argument):
            more, within = _count_repeats(part, inside=inside or is_repeat)
            number, nested = number + more, nested or within
    return number, nested


def _iterate_subpatterns(argument: Any) -> Iterator[Any]:
    """Yield the patterns inside the argument of an operation: groups, branches, repeats."""
    if hasattr(argument, "getwidth"):
        yield argument
    elif isinstance(argument, tuple | list):
        for part in argument:
            yield from _iterate_subpatterns(part)
