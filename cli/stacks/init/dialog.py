"""`scripts/cluster init`: ask a few questions and write a stack file that passes `validate`."""

import shlex
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from cli.errors import problem_line
from cli.exit_codes import INTERRUPTED, OK, REFUSED, USAGE
from cli.installation import ROOT
from cli.stacks.cost import lines
from cli.stacks.init.forms import FORMS
from cli.stacks.init.questions import NONE, Draft, Form, Question, Unfit
from infra.config import stack_file
from infra.config.messages import did_you_mean, one_of, shown
from infra.config.preflight import Examined
from infra.config.problems import Problem, is_below
from infra.cost.prices import snapshot
from infra.facts import price_list
from infra.facts.price_list import Wanted
from infra.settings.existing import ExistingSettings, ExistingTarget
from infra.settings.stack import Settings
from infra.validation import names

Ask = Callable[[str, str], str]
"""Function that takes a prompt and a default, and returns the user's answer."""


class Refused(Exception):
    """Stops `init` without writing the file; the message tells the user why."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Agreed:
    """Validated answers and the resulting stack file."""

    answers: Mapping[str, str]
    text: str
    examined: Examined[Any, Any]


def run(stack: str, folder: Path, given: Mapping[str, str | None], *, yes: bool, offline: bool, ask: Ask | None = None) -> int:
    """Ask for every value that is missing from `given`, and write the file.

    `given` maps `target` and the names of questions to answers.
    """
    flags = {name: value for name, value in given.items() if value is not None}
    try:
        _check_name(stack)
        _refuse_existing(stack, folder)
        if not yes and ask is None:
            ask = _at_terminal()
        kind = _target(flags.pop("target", None), ask)
        form = FORMS[kind]
        _refuse_other_flags(kind, form, flags)
        agreed = _agree(stack, form, flags, offline, ask)
        path = _write(folder / f"Pulumi.{stack}.yaml", agreed.text)
    except Refused as error:
        print(f"cluster init: {error}", file=sys.stderr)
        return error.code
    except (KeyboardInterrupt, typer.Abort):
        print("\ncluster init: nothing was written", file=sys.stderr)
        return INTERRUPTED
    _report(path, stack, form, agreed, offline=offline)
    return OK


def _check_name(stack: str) -> None:
    """Check the stack name before the first question, because no answer can fix an invalid name."""
    problems = list(names.stack(ExistingSettings(stack=stack, target=ExistingTarget(kind="existing"))))
    if problems:
        raise Refused("; ".join(map(str, problems)), USAGE)


def _refuse_existing(stack: str, folder: Path) -> None:
    if not folder.is_dir():
        raise Refused(f"--config-dir: {folder} is not a folder", USAGE)
    for ending in ("yaml", "yml"):
        path = folder / f"Pulumi.{stack}.{ending}"
        if path.exists():
            raise Refused(f"{path} already exists and was not changed; choose another name, or edit the file", REFUSED)


def _at_terminal() -> Ask:
    if not sys.stdin.isatty():
        raise Refused("stdin is not a terminal; pass --yes, and a flag for each value without a default", USAGE)
    return lambda prompt, default: str(typer.prompt(prompt, default=default, show_default=bool(default)))


# --- questions ---------------------------------------------------------------------------------------------------------


def _target(flag: str | None, ask: Ask | None) -> str:
    kinds = list(FORMS)
    if flag is None and ask is not None:
        for kind, form in FORMS.items():
            print(f"  {kind}: {form.summary}")
    while True:
        kind = flag if flag is not None else ask("target", kinds[0]) if ask is not None else kinds[0]
        if kind in FORMS:
            return kind
        complaint = f"--target: {shown(kind)} is not {one_of(kinds)}{did_you_mean(kind, kinds)}"
        if flag is not None or ask is None:
            raise Refused(complaint, USAGE)
        print(complaint)


def _refuse_other_flags(kind: str, form: Form, flags: Iterable[str]) -> None:
    others = sorted(set(flags) - {question.name for question in form.questions})
    if others:
        raise Refused(f"--{others[0]}: does not apply to target {kind}", USAGE)


def _agree(stack: str, form: Form, flags: Mapping[str, str], offline: bool, ask: Ask | None) -> Agreed:
    """Ask until the whole file is valid. Only questions whose answers caused a problem are asked again."""
    settled = dict(flags)
    while True:
        answers = _answers(form, settled, offline, ask)
        _refuse_idle_flags(form, flags, answers)
        text = form.text(stack, answers)
        examined, wrong = _examined(stack, form, text, offline=offline)
        if not wrong:
            return Agreed(answers, text, examined)
        again = [_question(form, problem) for problem in wrong]
        if ask is None or None in again:
            raise Refused("; ".join(map(str, wrong)) + "; nothing was written", REFUSED)
        for problem in wrong:
            print(problem)
        doubtful = {question.name for question in again if question}
        settled = {name: answer for name, answer in answers.items() if name not in doubtful}
        flags = {name: value for name, value in flags.items() if name not in doubtful}


def _refuse_idle_flags(form: Form, flags: Mapping[str, str], answers: Mapping[str, str]) -> None:
    for question in form.questions:
        if flags.get(question.name, NONE) not in ("", NONE) and question.name not in answers:
            raise Refused(f"--{question.name}: only {question.condition}", USAGE)


def _answers(form: Form, settled: Mapping[str, str], offline: bool, ask: Ask | None) -> dict[str, str]:
    answers: dict[str, str] = {}
    for question in form.questions:
        if question.applies(answers):
            answers[question.name] = _answer(question, Draft(answers, offline), settled.get(question.name), ask)
    return answers


def _answer(question: Question, draft: Draft, settled: str | None, ask: Ask | None) -> str:
    default = "" if settled is not None else _default(question, draft, ask)
    while True:
        answer = (settled if settled is not None else ask(question.prompt, default) if ask is not None else default).strip()
        try:
            question.check(answer, draft.answers)
        except Unfit as error:
            complaint = f"--{question.name}: {shown(answer)} is not accepted: {error}"
            if settled is not None or ask is None:
                raise Refused(complaint, USAGE) from None
            print(complaint)
        else:
            return answer


def _default(question: Question, draft: Draft, ask: Ask | None) -> str:
    proposal = question.propose(draft)
    if proposal.is_required and ask is None:
        raise Refused(f"--{question.name}: required with --yes, like {question.example}. {proposal.note}".strip(), USAGE)
    if proposal.note:
        print(proposal.note)
    return proposal.default


# --- validation --------------------------------------------------------------------------------------------------------


def _examined(stack: str, form: Form, text: str, *, offline: bool) -> tuple[Examined[Any, Any], tuple[Problem, ...]]:
    """Return the result of `validate`, and the problems that prevent writing the file."""
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / f"Pulumi.{stack}.yaml"
        draft.write_text(text, encoding="utf-8")
        raw = stack_file.read(draft)
    examined = form.examined(raw, offline=True)
    if examined.problems or offline:
        return examined, examined.problems
    examined = form.examined(raw, offline=False)
    final = tuple(problem for problem in examined.problems if (found := _question(form, problem)) and found.is_final)
    return examined, final


def _question(form: Form, problem: Problem) -> Question | None:
    """Return the question whose answer caused the problem; None if there is no such question."""
    for question in form.questions:
        if any(is_below(problem.path, path) for path in question.paths):
            return question
    return None


# --- the end -----------------------------------------------------------------------------------------------------------


def _write(path: Path, text: str) -> Path:
    is_new = False
    try:
        with path.open("x", encoding="utf-8") as file:
            is_new = True
            file.write(text)
    except FileExistsError:
        raise Refused(f"{path} already exists and was not changed", REFUSED) from None
    except OSError as error:
        if is_new:
            path.unlink()
        raise Refused(f"{path} cannot be written: {error.strerror}", USAGE) from None
    return path


def _report(path: Path, stack: str, form: Form, agreed: Agreed, *, offline: bool) -> None:
    print(f"wrote {path}")
    for problem in agreed.examined.problems:
        print(f"before `pulumi up`: {problem}")
    for warning in agreed.examined.warnings:
        print(problem_line(warning))
    if agreed.examined.facts is None:
        reason = "--offline" if offline else agreed.examined.not_queried
        print(f"checked the file only; {form.queried} was not queried: {reason}")
    first = _commands_before(path)
    for steps in form.next_steps(stack, agreed.answers):
        print(f"{steps.heading}:")
        for command in (*first, *steps.commands):
            print(f"  {command}")
        first = ()
    _report_cost(agreed, offline=offline)


def _report_cost(agreed: Agreed, *, offline: bool) -> None:
    """Print the cost of the stack as the last line. Print nothing for an existing cluster."""
    settings, facts = agreed.examined.settings, agreed.examined.facts
    if isinstance(settings, Settings):
        prices = snapshot(settings.region) if offline or facts is None else price_list.read(Wanted.of(settings))
        print(lines.of_stack(settings, facts, prices))


def _commands_before(path: Path) -> tuple[str, ...]:
    """Return the commands to run before the next steps.

    Without --config-dir, other verbs find stack files only in stacks/, and Pulumi must run in the clone.
    """
    found: list[str] = []
    if path.resolve().parent != ROOT / "stacks":
        found.append(f"cp {shlex.quote(str(path.resolve()))} {shlex.quote(str(ROOT / 'stacks'))}/")
    if Path.cwd() != ROOT:
        found.append(f"cd {shlex.quote(str(ROOT))}")
    return tuple(found)
