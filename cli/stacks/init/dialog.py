"""`scripts/cluster init`: ask a few questions and write a stack file that passes `validate`."""

import shlex
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from cli.errors import CommandError, format_problem
from cli.exit_codes import INTERRUPTED, OK, REFUSED, USAGE
from cli.installation import ROOT
from cli.stacks.cost import lines
from cli.stacks.init.forms import FORMS
from cli.stacks.init.questions import NONE, Draft, Form, Question, Unfit
from infra.config import stack_file
from infra.config.messages import format_value, join_with_or, suggest_correction
from infra.config.problems import Problem, is_below
from infra.cost.prices import read_snapshot
from infra.facts import price_list
from infra.facts.price_list import Wanted
from infra.preflight import Examined
from infra.settings.existing import ExistingSettings, ExistingTarget
from infra.settings.stack import Settings
from infra.validation.names import check_stack_name

Ask = Callable[[str, str], str]
"""Function that takes a prompt and a default, and returns the user's answer."""


@dataclass(frozen=True)
class Agreed:
    """Validated answers and the resulting stack file."""

    answers: Mapping[str, str]
    text: str
    examined: Examined[Any, Any]


def run_dialog(
    stack: str, folder: Path, answers: Mapping[str, str | None], *, yes: bool, offline: bool, ask: Ask | None = None
) -> int:
    """Ask for every value that is missing from `answers`, and write the file.

    `answers` maps `target` and the names of questions to answers.
    """
    flags = {name: value for name, value in answers.items() if value is not None}
    _check_name(stack)
    _check_file_is_new(stack, folder)
    if not yes and ask is None:
        ask = make_terminal_prompt()
    try:
        kind = _choose_target(flags.pop("target", None), ask)
        form = FORMS[kind]
        if unexpected := sorted(flags.keys() - {question.name for question in form.questions}):
            raise CommandError(f"--{unexpected[0]}: does not apply to target {kind}", USAGE)
        agreed = collect_answers(stack, form, flags, offline, ask)
    except (KeyboardInterrupt, typer.Abort):
        raise CommandError("nothing was written", INTERRUPTED) from None
    _print_result(_write_file(folder / f"Pulumi.{stack}.yaml", agreed.text), stack, form, agreed, offline=offline)
    return OK


def _check_name(stack: str) -> None:
    """Check the stack name before the first question, because no answer can fix an invalid name."""
    problems = list(check_stack_name(ExistingSettings(stack=stack, target=ExistingTarget(kind="existing"))))
    if problems:
        raise CommandError("; ".join(map(str, problems)), USAGE)


def _check_file_is_new(stack: str, folder: Path) -> None:
    if not folder.is_dir():
        raise CommandError(f"--config-dir: {folder} is not a folder", USAGE)
    for ending in ("yaml", "yml"):
        path = folder / f"Pulumi.{stack}.{ending}"
        if path.exists():
            raise CommandError(f"{path} already exists and was not changed; choose another name, or edit the file", REFUSED)


def make_terminal_prompt() -> Ask:
    if not sys.stdin.isatty():
        raise CommandError("stdin is not a terminal; pass --yes, and a flag for each value without a default", USAGE)
    return lambda prompt, default: str(typer.prompt(prompt, default=default, show_default=bool(default)))


# --- questions ---------------------------------------------------------------------------------------------------------


def _choose_target(flag: str | None, ask: Ask | None) -> str:
    kinds = list(FORMS)
    if flag is None and ask is not None:
        for kind, form in FORMS.items():
            print(f"  {kind}: {form.summary}")
    while True:
        kind = flag if flag is not None else ask("target", kinds[0]) if ask is not None else kinds[0]
        if kind in FORMS:
            return kind
        complaint = f"--target: {format_value(kind)} is not {join_with_or(kinds)}{suggest_correction(kind, kinds)}"
        if flag is not None or ask is None:
            raise CommandError(complaint, USAGE)
        print(complaint)


def collect_answers(stack: str, form: Form, flags: Mapping[str, str], offline: bool, ask: Ask | None) -> Agreed:
    """Ask until the whole file is valid. Only questions whose answers caused a problem are asked again."""
    settled = dict(flags)
    while True:
        answers: dict[str, str] = {}
        for question in form.questions:
            if question.applies(answers):
                answers[question.name] = ask_question(question, Draft(answers, offline), settled.get(question.name), ask)
        for question in form.questions:
            if flags.get(question.name, NONE) not in ("", NONE) and question.name not in answers:
                raise CommandError(f"--{question.name}: only {question.condition}", USAGE)
        text = form.text(stack, answers)
        examined, wrong = validate_draft(stack, form, text, offline=offline)
        if not wrong:
            return Agreed(answers, text, examined)
        again = [find_question(form, problem) for problem in wrong]
        if ask is None or None in again:
            raise CommandError("; ".join(map(str, wrong)) + "; nothing was written", REFUSED)
        for problem in wrong:
            print(problem)
        doubtful = {question.name for question in again if question}
        settled = {name: answer for name, answer in answers.items() if name not in doubtful}
        flags = {name: value for name, value in flags.items() if name not in doubtful}


def ask_question(question: Question, draft: Draft, settled: str | None, ask: Ask | None) -> str:
    default = "" if settled is not None else find_default(question, draft, ask)
    while True:
        answer = (settled if settled is not None else ask(question.prompt, default) if ask is not None else default).strip()
        try:
            question.check(answer, draft.answers)
        except Unfit as error:
            complaint = f"--{question.name}: {format_value(answer)} is not accepted: {error}"
            if settled is not None or ask is None:
                raise CommandError(complaint, USAGE) from None
            print(complaint)
        else:
            return answer


def find_default(question: Question, draft: Draft, ask: Ask | None) -> str:
    proposal = question.propose(draft)
    if proposal.is_required and ask is None:
        raise CommandError(f"--{question.name}: required with --yes, like {question.example}. {proposal.note}".strip(), USAGE)
    if proposal.note:
        print(proposal.note)
    return proposal.default


# --- validation --------------------------------------------------------------------------------------------------------


def validate_draft(stack: str, form: Form, text: str, *, offline: bool) -> tuple[Examined[Any, Any], tuple[Problem, ...]]:
    """Return the result of `validate`, and the problems that prevent writing the file."""
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / f"Pulumi.{stack}.yaml"
        draft.write_text(text, encoding="utf-8")
        raw = stack_file.read_stack_file(draft)
    examined = form.examine(raw, offline=True)
    if examined.problems or offline:
        return examined, examined.problems
    examined = form.examine(raw, offline=False)
    final = tuple(problem for problem in examined.problems if (question := find_question(form, problem)) and question.is_final)
    return examined, final


def find_question(form: Form, problem: Problem) -> Question | None:
    """Return the question whose answer caused the problem; None if there is no such question."""
    causes = (question for question in form.questions if any(is_below(problem.path, path) for path in question.paths))
    return next(causes, None)


# --- the end -----------------------------------------------------------------------------------------------------------


def _write_file(path: Path, text: str) -> Path:
    is_new = False
    try:
        with path.open("x", encoding="utf-8") as file:
            is_new = True
            file.write(text)
    except FileExistsError:
        raise CommandError(f"{path} already exists and was not changed", REFUSED) from None
    except OSError as error:
        if is_new:
            path.unlink()
        raise CommandError(f"{path} cannot be written: {error.strerror}", USAGE) from None
    return path


def _print_result(path: Path, stack: str, form: Form, agreed: Agreed, *, offline: bool) -> None:
    print(f"wrote {path}")
    for problem in agreed.examined.problems:
        print(f"before `pulumi up`: {problem}")
    for warning in agreed.examined.warnings:
        print(format_problem(warning))
    if agreed.examined.facts is None:
        reason = "--offline" if offline else agreed.examined.not_queried
        print(f"checked the file only; {form.queried} was not queried: {reason}")
    first = list_prior_commands(path)
    for heading, commands in form.next_steps(stack, agreed.answers).items():
        print(f"{heading}:")
        for command in (*first, *commands):
            print(f"  {command}")
        first = ()
    settings, facts = agreed.examined.settings, agreed.examined.facts
    if isinstance(settings, Settings):  # an existing cluster costs nothing in AWS
        prices = read_snapshot(settings.region) if offline or facts is None else price_list.read(Wanted.from_settings(settings))
        print(lines.format_stack_cost(settings, facts, prices))


def list_prior_commands(path: Path) -> tuple[str, ...]:
    """Return the commands to run before the next steps.

    Without --config-dir, other verbs find stack files only in stacks/, and Pulumi must run in the clone.
    """
    copy, change = f"cp {shlex.quote(str(path.resolve()))} {shlex.quote(str(ROOT / 'stacks'))}/", f"cd {shlex.quote(str(ROOT))}"
    return (*([copy] if path.resolve().parent != ROOT / "stacks" else []), *([change] if Path.cwd() != ROOT else []))
