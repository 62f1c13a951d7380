"""What `scripts/cluster validate` says of a stack, whatever kind of cluster it is: in words or as JSON, and by its exit code."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from infra.config.preflight import Examined

FINE, NOT_QUERIED, USAGE, PROBLEMS = 0, 1, 2, 3


@dataclass(frozen=True)
class Verdict:
    path: Path
    examined: Examined[Any, Any]
    offline: bool
    left_out: str
    """What nobody checks offline."""
    unchecked: Sequence[str]
    """Sentences on what could not be checked although somebody was asked."""
    pools: Callable[[], list[Mapping[str, object]]]
    """Of a stack without problems."""
    show: Callable[[Console], None]
    """Prints what a stack without problems will be."""

    @property
    def code(self) -> int:
        if self.examined.problems:
            return PROBLEMS
        return FINE if self.offline or self.examined.facts else NOT_QUERIED

    @property
    def is_fine(self) -> bool:
        return self.code == FINE and self.examined.settings is not None

    def as_json(self) -> dict[str, object]:
        return {
            "file": str(self.path),
            "ok": self.code == FINE,
            "problems": [
                {"path": problem.path, "message": problem.message, "severity": problem.severity}
                for problem in (*self.examined.problems, *self.examined.warnings)
            ],
            "notAsked": self.examined.not_queried,
            "unchecked": list(self.unchecked),
            "pools": self.pools() if self.is_fine else [],
        }

    def print(self) -> None:
        console = Console(highlight=False, soft_wrap=True, markup=False)
        for problem in self.examined.warnings:
            console.print(f"warning: {problem}", style="yellow")
        for problem in self.examined.problems:
            console.print(str(problem), style="red")
        if number := len(self.examined.problems):
            console.print(f"{self.path.name}: {number} problem{'' if number == 1 else 's'}; nothing was started", style="bold")
        if self.is_fine:
            self.show(console)
            console.print(f"{self.path.name}: {_found(len(self.examined.warnings))}", style="bold green")
        if self.offline:
            console.print(f"not checked: {self.left_out}", style="yellow")
        elif self.examined.not_queried:
            found = "" if self.examined.problems else " and is fine"
            console.print(f"only the file was checked{found}: {self.examined.not_queried}", style="yellow")
        for sentence in self.unchecked:
            console.print(f"not checked: {sentence}", style="yellow")


def _found(warnings: int) -> str:
    return "no problems found" if not warnings else f"no errors, {warnings} warning{'' if warnings == 1 else 's'}"
