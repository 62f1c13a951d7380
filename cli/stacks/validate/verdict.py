"""Result of `validate` for any kind of stack, as text, as JSON and as an exit code."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from cli.errors import problem_count, problem_json, problem_line
from cli.exit_codes import OK, REFUSED, UNREACHABLE
from infra.config.preflight import Examined


@dataclass(frozen=True)
class Verdict:
    path: Path
    examined: Examined[Any, Any]
    offline: bool
    left_out: str
    """Text that lists the checks skipped with --offline."""
    unchecked: Sequence[str]
    """One sentence per check that could not be completed although AWS or the cluster was queried."""
    unverified: Mapping[str, str]
    """Pinned version that no source confirms -> what is known about the version."""
    pools: Callable[[], list[Mapping[str, object]]]
    """Returns the pools; called only if the stack has no problems."""
    show: Callable[[Console], None]
    """Prints the summary; called only if the stack has no problems."""

    @property
    def code(self) -> int:
        if self.examined.problems:
            return REFUSED
        return OK if self.offline or self.examined.facts else UNREACHABLE

    @property
    def is_fine(self) -> bool:
        return self.code == OK and self.examined.settings is not None

    def as_json(self) -> dict[str, object]:
        return {
            "file": str(self.path),
            "ok": self.code == OK,
            "problems": [problem_json(one) for one in (*self.examined.problems, *self.examined.warnings)],
            "notAsked": self.examined.not_queried,
            "unchecked": list(self.unchecked),
            "notVerified": dict(self.unverified),
            "pools": self.pools() if self.is_fine else [],
        }

    def show_on(self, console: Console) -> None:
        for problem in self.examined.warnings:
            console.print(problem_line(problem), style="yellow")
        for problem in self.examined.problems:
            console.print(problem_line(problem), style="red")
        if number := len(self.examined.problems):
            console.print(problem_count(self.path.name, number, "created"), style="bold")
        if self.is_fine:
            self.show(console)
            console.print(f"{self.path.name}: {_found(len(self.examined.warnings))}", style="bold green")
        if self.offline:
            console.print(f"not checked: {self.left_out}", style="yellow")
        elif self.examined.not_queried:
            file = "only the file was checked" if self.examined.problems else "the file looks fine, but only the file was checked"
            console.print(f"{file}: {self.examined.not_queried}", style="yellow")
        for pin, known in self.unverified.items():
            console.print(f"not verified: {pin} ({known})", style="yellow")
        for sentence in self.unchecked:
            console.print(f"not checked: {sentence}", style="yellow")


def _found(warnings: int) -> str:
    return "no problems found" if not warnings else f"no errors, {warnings} warning{'' if warnings == 1 else 's'}"
