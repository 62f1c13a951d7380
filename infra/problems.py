"""Problems of a stack as sentences: where (as the user writes it), what value, and the way out."""

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from infra.secrets import kind_of_secret

if TYPE_CHECKING:
    from infra.settings import Settings

LONGEST_QUOTE = 60

ALIKE, A_SLIP = 0.6, 0.9
"""How much of two words must be the same to be taken for like each other, and for the same."""


@dataclass(frozen=True)
class Problem:
    """One thing a user must change, and how."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


class SettingsError(Exception):
    """A stack with problems. What could be understood is in `partial`, so that rules can be judged in the same run."""

    def __init__(
        self, problems: Sequence[Problem], partial: "Settings | None" = None, doubtful: frozenset[str] = frozenset()
    ) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)
        self.partial = partial
        self.doubtful = doubtful
        """Paths below which `partial` holds stand-ins: what a rule says about them means nothing."""


def shown(value: object) -> str:
    """A value as a message quotes it: short, and never a secret."""
    if isinstance(value, str):
        if kind_of_secret(value):
            return "a secret"
        text = value if len(value) <= LONGEST_QUOTE else value[: LONGEST_QUOTE - 3] + "..."
        return json.dumps(text, ensure_ascii=False)
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    return json.dumps(value)


def one_of(choices: Iterable[str]) -> str:
    """`a`, `a or b`, `a, b or c`."""
    return _joined(choices, "or")


def all_of(choices: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return _joined(choices, "and")


def _joined(choices: Iterable[str], last: str) -> str:
    words = list(choices) or ["none"]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


def did_you_mean(word: str, choices: Iterable[str], most: int = 1) -> str:
    """`; did you mean x?`, or nothing where no choice is near."""
    near = nearest(word, choices, most)
    return f"; did you mean {one_of(near)}?" if near else ""


def nearest(word: str, choices: Iterable[str], most: int = 1) -> list[str]:
    """The choices most like the word, best first; only the best where it is a slip of a letter."""
    by_lower = {choice.lower(): choice for choice in sorted(choices, reverse=True)}
    slips = difflib.get_close_matches(word.lower(), list(by_lower), n=1, cutoff=A_SLIP)
    like = slips or difflib.get_close_matches(word.lower(), list(by_lower), n=most, cutoff=ALIKE)
    return [by_lower[lower] for lower in like]


def path_text(path: Iterable[str | int]) -> str:
    """`("pools", 0, "minSize")` as `pools[0].minSize`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


def is_below(path: str, ancestor: str) -> bool:
    """Whether a path is the ancestor or lies in it."""
    return path == ancestor or path.startswith((f"{ancestor}.", f"{ancestor}["))


JUDGED_TOGETHER: tuple[frozenset[str], ...] = (
    frozenset({"minSize", "desiredSize", "maxSize", "capacity"}),
    frozenset({"public", "publicCidrs", "allowAnywhere"}),
    frozenset({"kubernetesVersion", "addonVersions"}),
    frozenset({"natGateways", "interfaceEndpoints"}),
    frozenset({"vpcId", "subnetIds"}),
    frozenset({"instanceType", "efa", "amiId"}),
)
"""Settings beside each other that one rule compares: what it says of one depends on the others."""


def is_doubtful(path: str, doubtful: Iterable[str]) -> bool:
    """Whether what a rule says of a path may come from a value that was replaced by a stand-in."""
    return any(is_below(path, suspect) for stand_in in doubtful for suspect in _suspects(stand_in))


def _suspects(stand_in: str) -> Iterator[str]:
    parent, dot, name = stand_in.rpartition(".")
    yield stand_in
    for group in JUDGED_TOGETHER:
        if name in group:
            yield from (f"{parent}{dot}{other}" for other in group)
