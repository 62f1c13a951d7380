"""Problems of a stack: the path in the stack file, what is wrong with the value, and the fix."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

Severity = Literal["error", "warning"]
STACK_FILE: Final = "stack file"
"""Topic of problems that can be found from the stack file alone."""


@dataclass(frozen=True)
class Problem:
    """Location, description and fix of a problem. An error stops `pulumi up`; a warning is only printed."""

    path: str
    message: str
    severity: Severity = "error"
    topic: str = field(default=STACK_FILE, compare=False)
    """Topic of the rule that reports the problem: `plan` prints one result per topic."""

    @property
    def is_error(self) -> bool:
        return self.severity == "error"

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


def create_warning(path: str, message: str) -> Problem:
    return Problem(path, message, "warning")


def remove_redundant_problems(problems: Iterable[Problem]) -> list[Problem]:
    """Remove duplicates, and warnings about a path that has an error."""
    distinct = list(dict.fromkeys(problems))
    paths_with_errors = {problem.path for problem in distinct if problem.is_error}
    return [problem for problem in distinct if problem.is_error or problem.path not in paths_with_errors]


class SettingsError(Exception):
    """The stack has errors. The message lists all of them, one per line."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


def format_path(path: Iterable[str | int]) -> str:
    """Format a path: `("pools", 0, "minSize")` -> `pools[0].minSize`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


def is_below(path: str, ancestor: str) -> bool:
    """Return whether a path is equal to `ancestor` or below it."""
    return path == ancestor or path.startswith((f"{ancestor}.", f"{ancestor}["))


JUDGED_TOGETHER: tuple[frozenset[str], ...] = (
    frozenset({"minSize", "desiredSize", "maxSize", "capacity"}),
    frozenset({"public", "publicCidrs", "allowAnywhere", "privateCidrs"}),
    frozenset({"kubernetesVersion", "addonVersions"}),
    frozenset({"natGateways", "interfaceEndpoints"}),
    frozenset({"vpcId", "subnetIds"}),
    frozenset({"instanceType", "efa", "amiId"}),
)
"""Sets of sibling settings that a rule compares: a wrong value of one setting can cause a problem with another."""


def is_unreliable(path: str, placeholders: Iterable[str]) -> bool:
    """Return whether a rule about this path may have seen a placeholder instead of the user's value."""
    return any(is_below(path, suspect) for placeholder in placeholders for suspect in _list_unreliable_paths(placeholder))


def _list_unreliable_paths(placeholder: str) -> Iterator[str]:
    parent, dot, name = placeholder.rpartition(".")
    yield placeholder
    for group in JUDGED_TOGETHER:
        if name in group:
            yield from (f"{parent}{dot}{sibling}" for sibling in group)
