"""Judge of what the program did with hostile inputs."""

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

KINDS: Final = ("executed", "lost", "crossed", "tracebacks")
"""Kinds of violations:
- executed: an input was an instruction: a program ran, an object was created, or a control sequence reached the terminal
- lost: what belongs to others was no longer handled, shown or kept
- crossed: a request or file was outside the namespace or folder of the input
- tracebacks: the program failed with a traceback instead of a sentence for the user
"""
EXAMPLES: Final = 5


@dataclass
class Judge:
    """Counts the inputs of one surface and the violations."""

    surface: str
    tried: int = 0
    violations: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    examples: list[str] = field(default_factory=list)

    def report(self, kind: str, what: str) -> None:
        self.violations[kind] += 1
        if len(self.examples) < EXAMPLES:
            self.examples.append(f"{self.surface}, input {self.tried}: {kind}: {what[:500]}")

    def require(self, condition: object, kind: str, what: str) -> None:
        """Report a violation unless the condition is true."""
        if not condition:
            self.report(kind, what)

    @contextmanager
    def attempt(self, inputs: int = 1, *allowed: type[BaseException]) -> Iterator[None]:
        """Count inputs, and report an error that is not one of the allowed ones."""
        self.tried += inputs
        try:
            yield
        except allowed:
            pass
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            self.report("tracebacks", f"{type(error).__name__}: {error} ({last.filename.rpartition('/')[2]}:{last.lineno})")

    @property
    def is_clean(self) -> bool:
        return not any(self.violations.values())

    def to_row(self) -> dict[str, Any]:
        return {"surface": self.surface, "inputs": self.tried, **self.violations}


Surface = Callable[[Judge, Random, int], None]
"""Tries a number of inputs."""


def try_surface(name: str, surface: Surface, seed: int, count: int) -> Judge:
    """Try a surface. The same seed and count give the same inputs."""
    judge = Judge(name)
    surface(judge, Random(f"{seed} {name}"), count)
    return judge
