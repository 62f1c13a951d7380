"""The result of a check of the account."""

from dataclasses import dataclass
from typing import Literal

Verdict = Literal["yes", "no", "unknown"]


@dataclass(frozen=True)
class Answer:
    """Result of one check."""

    check: str
    verdict: Verdict
    sentences: tuple[str, ...] = ()
    """For `no`: the problem and the fix. For `unknown`: the reason. For `yes`: details, if any."""
    warnings: tuple[str, ...] = ()
    """Problems that do not stop `pulumi up`, such as a quota below `maxSize`."""


def build_negative_answer(check: str, *sentences: str) -> Answer:
    return Answer(check, "no", sentences)


def build_unknown_answer(check: str, *reasons: str) -> Answer:
    return Answer(check, "unknown", reasons)
