"""What `pulumi up` and `scripts/cluster validate` do first: understand a stack and find every problem it has."""

import re
from dataclasses import dataclass, replace
from typing import Any

from infra import validation
from infra.facts import Facts, FactsError, gather
from infra.problems import Problem, SettingsError, is_doubtful
from infra.settings import Settings
from infra.shape import inner_types, models_for
from infra.stack_file import RawStack

BEFORE = ("config", "aws:region", "stack", "caller")
"""Paths that are no settings; their problems come first."""


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
    if not raw.is_readable:
        return Examined(None, problems=raw.problems)
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


def _place(problem: Problem) -> list[int]:
    """Where the settings have the problem's path: problems are told in the order of the README's table."""
    place: list[int] = []
    types: list[Any] = [Settings]
    for step in re.findall(r"[^.\[\]]+", problem.path):
        keys = [str(field.alias) for model in models_for(types, None) for field in model.model_fields.values()]
        if not place:
            keys = [*BEFORE, *keys]
        place.append(int(step) if step.isdecimal() else keys.index(step) if step in keys else len(keys))
        types = inner_types(types, None, int(step) if step.isdecimal() else step)
    return place
