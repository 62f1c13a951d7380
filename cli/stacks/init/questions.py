"""Questions of `init`: prompts, default answers, and checks of single answers."""

import ipaddress
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from cli.stacks.init import caller_address
from infra.config.messages import join_with_or, suggest_correction
from infra.preflight import Examined

Answers = Mapping[str, str]
NONE: Final = "none"


class Unfit(Exception):
    """An answer that `init` rejects; the message says what to write instead."""


@dataclass(frozen=True)
class Draft:
    """Input for proposing a default: the answers so far."""

    answers: Answers
    offline: bool = False
    """Whether network calls are forbidden."""


@dataclass(frozen=True)
class Proposal:
    """Default answer to a question, and a note for the user."""

    default: str = ""
    note: str = ""
    """Text printed before the question. It is also printed with --yes, which skips the question."""
    is_required: bool = False
    """Whether the question has no default, so that its flag must be given with --yes."""


@dataclass(frozen=True)
class Question:
    """One value that a stack file needs. Its flag is `--NAME`."""

    name: str
    prompt: str
    propose: Callable[[Draft], Proposal]
    check: Callable[[str, Answers], None] = lambda answer, answers: None
    """Raises Unfit. Checks only the answer's format; validation checks whether the value exists in AWS or the cluster.
    """
    paths: tuple[str, ...] = ()
    """Paths of settings that depend on the answer. If validation reports a problem with one of them, `init` asks the
    question again.
    """
    is_final: bool = False
    """Whether `init` rejects an answer if AWS or the cluster reveals a problem with it. For other questions,
    such problems (a quota, an AMI that is not built yet, a label that no node has yet) can be fixed after `init`."""
    example: str = ""
    """Example answer for questions that may have no default."""
    applies: Callable[[Answers], bool] = lambda answers: True
    condition: str = ""
    """Text that explains when the question applies."""


@dataclass(frozen=True)
class Form:
    """One target: its questions and its stack file."""

    summary: str
    queried: str
    """What `init` queries to check the answers: AWS or the cluster."""
    questions: tuple[Question, ...]
    text: Callable[[str, Answers], str]
    """Function that renders the stack file from the stack name and the answers."""
    examine: Callable[..., Examined[Any, Any]]
    """Function that checks the stack file as `validate` does: `examine(raw, offline=...)`."""
    next_steps: Callable[[str, Answers], dict[str, tuple[str, ...]]]
    """Function that returns the commands to run next. The heading of each group names the machine on which they run."""


# --- proposals ---------------------------------------------------------------------------------------------------------


def propose_default(answer: str) -> Callable[[Draft], Proposal]:
    return lambda draft: Proposal(answer)


def propose_nothing(draft: Draft) -> Proposal:
    return Proposal(is_required=True)


def propose_own_cidr(opens: str, undetected: str, *, is_required: bool) -> Callable[[Draft], Proposal]:
    """Propose the caller's public address as a /32. `undetected`: describes the consequences if the address cannot be
    detected."""

    def propose(draft: Draft) -> Proposal:
        if draft.offline:
            return Proposal(note=f"Your public address was not looked up (--offline). {undetected}", is_required=is_required)
        try:
            address = caller_address.detect_address()
        except caller_address.Undetected as error:
            note = f"Your public address could not be detected ({error}). {undetected}"
            return Proposal(note=note, is_required=is_required)
        service = caller_address.read_ip_service_url()
        note = f"Your public address is {address} ({service}). By default, only this address can reach {opens}."
        return Proposal(f"{address}/32", note)

    return propose


def _propose_region(draft: Draft) -> Proposal:
    return Proposal(os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-west-2")


# --- checks ------------------------------------------------------------------------------------------------------------


def make_check(is_fine: Callable[[str], object], fix: str) -> Callable[[str, Answers], None]:
    """Return a check that rejects an answer and suggests this fix."""

    def check(answer: str, answers: Answers) -> None:
        if not is_fine(answer):
            raise Unfit(fix)

    return check


def make_pattern_check(pattern: str, example: str) -> Callable[[str, Answers], None]:
    return make_check(re.compile(pattern).fullmatch, f"write one like {example}")


def make_number_check(least: int, most: int) -> Callable[[str, Answers], None]:
    fix = f"write a number from {least} to {most}"
    return make_check(lambda answer: re.fullmatch("[0-9]+", answer) and least <= int(answer) <= most, fix)


def make_choice_check(*choices: str) -> Callable[[str, Answers], None]:
    def check(answer: str, answers: Answers) -> None:
        if answer not in choices:
            raise Unfit(f"write {join_with_or(choices)}{suggest_correction(answer, choices)}")

    return check


def check_cidrs(answer: str, answers: Answers) -> None:
    for part in split_comma_list(answer):
        try:
            ipaddress.IPv4Network(part)
        except ValueError as error:
            raise Unfit(f"{part} is not an IPv4 CIDR ({error}); write one like 203.0.113.7/32") from None


# --- text --------------------------------------------------------------------------------------------------------------


def split_comma_list(answer: str) -> list[str]:
    """Split a comma-separated list; `none` means an empty list."""
    words = [part.strip() for part in answer.split(",") if part.strip()]
    return [] if words == [NONE] else words


def parse_cidrs(answer: str) -> list[str]:
    """Return the CIDRs for the stack file. An address without a prefix length becomes a /32."""
    return [str(ipaddress.IPv4Network(part)) for part in split_comma_list(answer)]


def format_as_flow_yaml(value: object) -> str:
    """Format a value as YAML on one line."""
    text = yaml.safe_dump(value, default_flow_style=True, width=10_000, sort_keys=False)
    return text.removesuffix("...\n").strip()


def shorten_home(path: str) -> str:
    """Shorten a path below the home folder to one that starts with `~/`, so that the stack file also works for other
    users.
    """
    absolute, home = Path(path).expanduser().absolute(), Path.home()
    return f"~/{absolute.relative_to(home)}" if absolute.is_relative_to(home) else str(absolute)


# --- questions shared by targets ---------------------------------------------------------------------------------------

REGION: Final = Question(
    "region",
    "AWS region",
    _propose_region,
    make_pattern_check(r"[a-z]+(-[a-z]+)+-\d", "us-west-2"),
    ("aws:region",),
    is_final=True,
)
STORAGE: Final = Question(
    "storage", "shared file system: efs or none", propose_default("efs"), make_choice_check("efs", NONE), ("storage",)
)


def make_size_question(*paths: str) -> Question:
    return Question("size", "maximum number of nodes", propose_default("2"), make_number_check(1, 1000), paths)


def make_instance_type_question(prompt: str, usual: str) -> Question:
    check = make_pattern_check(r"[a-z0-9-]+\.[a-z0-9-]+", usual)
    return Question("instance-type", prompt, propose_default(usual), check, ("pools[0].instanceType",), is_final=True)
