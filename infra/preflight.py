"""What `pulumi up` and `scripts/cluster validate` do first: understand a stack and find every problem it has."""

import re
from dataclasses import dataclass, replace

from infra import validation
from infra.facts import Facts, FactsError, gather
from infra.problems import Problem, SettingsError, is_doubtful
from infra.settings import Settings
from infra.stack_file import RawStack

_ORDER = ("config", "aws:region", "stack", "caller", *(str(field.alias) for field in Settings.model_fields.values()))


@dataclass(frozen=True)
class Examined:
    """A stack as far as it is understood, and all its problems in the order of the file."""

    settings: Settings | None
    """None where too little can be understood; with problems it may hold stand-ins."""
    facts: Facts | None = None
    problems: tuple[Problem, ...] = ()
    not_asked: str | None = None
    """Why AWS was not asked: then only the rules that need no facts were judged."""


def examine(raw: RawStack, *, offline: bool = False) -> Examined:
    """Judge every rule that can be judged, also where something is wrong already."""
    form: tuple[Problem, ...] = ()
    doubtful: frozenset[str] = frozenset()
    try:
        settings: Settings | None = Settings.load(raw.values, stack=raw.stack, region=raw.region)
    except SettingsError as error:
        settings, form, doubtful = error.partial, error.problems, error.doubtful
    told = (*raw.problems, *form)
    if settings is None:
        return Examined(None, None, told)
    examined = _judged(settings, offline=offline or not raw.region)
    rules = [problem for problem in examined.problems if not is_doubtful(problem.path, doubtful)]
    return replace(examined, problems=tuple(sorted(dict.fromkeys((*told, *rules)), key=_place)))


def settings_and_facts(raw: RawStack) -> tuple[Settings, Facts]:
    """What a program is built from. Raises SettingsError with all problems, or FactsError where AWS cannot be asked."""
    examined = examine(raw)
    if examined.problems or examined.settings is None:
        raise SettingsError(examined.problems)
    if examined.facts is None:
        raise FactsError(examined.not_asked or "AWS was not asked")
    return examined.settings, examined.facts


def _judged(settings: Settings, *, offline: bool) -> Examined:
    if offline:
        return Examined(settings, None, tuple(validation.check_offline(settings)), "only the file was looked at")
    try:
        facts = gather(settings)
    except FactsError as error:
        return Examined(settings, None, tuple(validation.check_offline(settings)), str(error))
    return Examined(settings, facts, tuple(validation.check(settings, facts)))


def _place(problem: Problem) -> tuple[int, int]:
    """By the order of the settings, pools by their index."""
    match = re.match(r"([\w:-]+)(?:\[(\d+)\])?", problem.path)
    first, index = (match[1], int(match[2] or -1)) if match else ("", -1)
    return (_ORDER.index(first) if first in _ORDER else len(_ORDER), index)
