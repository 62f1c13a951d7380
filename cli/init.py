"""`scripts/cluster init`: a few questions, and a stack file that is valid."""

import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import typer

from cli.exit_codes import FINE, INTERRUPTED, REFUSED, USAGE
from cli.init_forms import FORMS, Form, Question, Unfit
from infra.config import preflight, stack_file
from infra.config.messages import did_you_mean, one_of, shown
from infra.config.preflight import Examined

Ask = Callable[[str, str], str]
"""Words and the usual answer -> the answer."""

OF_ANSWERS: Final = ("aws:region", "pools[0].instanceType")
"""What AWS may refuse of an answer. What else it says (a quota, an AMI that is not built yet) can be settled afterwards."""


class Refused(Exception):
    """Nothing is written; the message is for the user."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def run(stack: str, folder: Path, given: Mapping[str, str | None], *, yes: bool, offline: bool, ask: Ask | None = None) -> int:
    """Ask what is not given, write the file. `given` has `target` and the names of questions."""
    told = {name: value for name, value in given.items() if value is not None}
    try:
        _refuse_existing(stack, folder)
        if not yes and ask is None:
            ask = _at_terminal()
        kind = _target(told.pop("target", None), ask)
        form = FORMS[kind]
        text = form.text(stack, _answers(form, kind, told, ask))
        examined = _examined(stack, text, offline=offline)
        path = _written(folder / f"Pulumi.{stack}.yaml", text)
    except Refused as error:
        print(f"cluster init: {error}", file=sys.stderr)
        return error.code
    except (KeyboardInterrupt, typer.Abort):
        print("\ncluster init: nothing was written", file=sys.stderr)
        return INTERRUPTED
    _tell(path, stack, form, examined)
    return FINE


def _refuse_existing(stack: str, folder: Path) -> None:
    if not folder.is_dir():
        raise Refused(f"--config-dir: {folder} is no folder", USAGE)
    for ending in ("yaml", "yml"):
        path = folder / f"Pulumi.{stack}.{ending}"
        if path.exists():
            raise Refused(f"{path} is there already and stays as it is; choose another name, or edit it", REFUSED)


def _at_terminal() -> Ask:
    if not sys.stdin.isatty():
        raise Refused("there is no terminal to ask at; give --yes, and flags for what shall not be as usual", USAGE)
    return lambda words, usual: str(typer.prompt(words, default=usual, show_default=bool(usual)))


def _target(told: str | None, ask: Ask | None) -> str:
    kinds = list(FORMS)
    if told is None and ask is not None:
        for kind, form in FORMS.items():
            print(f"  {kind}: {form.summary}")
    while True:
        kind = told if told is not None else ask("target", kinds[0]) if ask is not None else kinds[0]
        if kind in FORMS:
            return kind
        complaint = f"--target: {shown(kind)} is not {one_of(kinds)}{did_you_mean(kind, kinds)}"
        if told is not None or ask is None:
            raise Refused(complaint, USAGE)
        print(complaint)


def _answers(form: Form, kind: str, told: Mapping[str, str], ask: Ask | None) -> dict[str, str]:
    strangers = sorted(set(told) - {question.name for question in form.questions})
    if strangers:
        raise Refused(f"--{strangers[0]}: target {kind} does not ask for it", USAGE)
    answers: dict[str, str] = {}
    for question in form.questions:
        answers[question.name] = _answer(question, answers, told.get(question.name), ask)
    return answers


def _answer(question: Question, before: Mapping[str, str], told: str | None, ask: Ask | None) -> str:
    usual = question.usual(before)
    while True:
        answer = (told if told is not None else ask(question.words, usual) if ask is not None else usual).strip()
        try:
            question.check(answer)
        except Unfit as error:
            complaint = f"--{question.name}: {shown(answer)} cannot be taken: {error}"
            if told is not None or ask is None:
                raise Refused(complaint, USAGE) from None
            print(complaint)
        else:
            return answer


def _examined(stack: str, text: str, *, offline: bool) -> Examined[Any, Any]:
    """What `validate` will say. Raises Refused where an answer is wrong."""
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / f"Pulumi.{stack}.yaml"
        try:
            draft.write_text(text, encoding="utf-8")
        except OSError:
            raise Refused(f"--stack: {shown(stack)} cannot be part of a file's name", USAGE) from None
        raw = stack_file.read(draft)
    examined = preflight.examine_aws(raw, offline=True)
    wrong = examined.problems
    if not wrong and not offline:
        examined = preflight.examine_aws(raw)
        wrong = tuple(problem for problem in examined.problems if problem.path in OF_ANSWERS)
    if wrong:
        raise Refused("; ".join(map(str, wrong)) + "; nothing was written", REFUSED)
    return examined


def _written(path: Path, text: str) -> Path:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise Refused(f"{path} is there already and stays as it is", REFUSED) from None
    except OSError as error:
        raise Refused(f"{path} cannot be written: {error.strerror}", USAGE) from None
    return path


def _tell(path: Path, stack: str, form: Form, examined: Examined[Any, Any]) -> None:
    print(f"wrote {path}")
    for problem in examined.problems:
        print(f"before `pulumi up`: {problem}")
    if examined.facts is None:
        print(f"only the file was checked, AWS was not asked: {examined.not_queried}")
    print("next:")
    for step in form.next_steps:
        print(f"  {step.format(stack=stack)}")
