"""Problems of a job file or a manifest, as text, as JSON and as an exit code."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cli.console import make_console, print_json
from cli.errors import format_problem, serialize_problem, summarize_problems
from cli.exit_codes import OK, REFUSED
from infra.config.problems import Problem


@dataclass(frozen=True)
class FileReport:
    path: Path
    problems: Sequence[Problem]
    undone: str
    """What is not done if there are errors, such as `submitted`."""
    fine: str
    """Sentence for a file without errors."""
    unchecked: Sequence[str] = ()

    def print_problems(self, *, as_json: bool) -> int:
        """Print the problems; return the exit code."""
        errors = [problem for problem in self.problems if problem.is_error]
        if as_json:
            listed = [serialize_problem(problem) for problem in self.problems]
            print_json({"file": str(self.path), "ok": not errors, "problems": listed, "unchecked": list(self.unchecked)})
            return REFUSED if errors else OK
        console = make_console()
        for problem in self.problems:
            console.print(format_problem(problem), style="red" if problem.is_error else "yellow")
        if errors:
            console.print(summarize_problems(self.path.name, len(errors), self.undone), style="bold")
        else:
            console.print(f"{self.path.name}: {self.fine}", style="bold green")
        for sentence in self.unchecked:
            console.print(f"not checked: {sentence}", style="yellow")
        return REFUSED if errors else OK
