"""What `pulumi up` and `scripts/cluster validate` do first: understand a stack and find every problem it has."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from infra import validation
from infra.facts import Facts, FactsError, gather
from infra.problems import Problem, SettingsError, is_doubtful
from infra.settings import Settings
from infra.shape import inner_types, models_for, understand
from infra.stack_file import RawStack

BEFORE = ("config", "aws:region", "stack", "caller")
"""Paths that are no settings; their problems come first."""

SettingsType = TypeVar("SettingsType", bound="Any")
FactsType = TypeVar("FactsType")


@dataclass(frozen=True)
class Examined(Generic[SettingsType, FactsType]):
    """A stack as far as it is understood, and all its problems in the order of the file."""

    settings: SettingsType | None
    """None where too little can be understood; with problems it may hold stand-ins."""
    facts: FactsType | None = None
    problems: tuple[Problem, ...] = ()
    not_asked: str | None = None
    """Why nobody was asked for facts: then only the rules that need none were judged."""

    @property
    def whole(self) -> tuple[SettingsType, FactsType]:
        """What a program is built from. Raises SettingsError with all problems, or FactsError where nobody could be asked."""
        if self.problems or self.settings is None:
            raise SettingsError(self.problems)
        if self.facts is None:
            raise FactsError(self.not_asked or "nobody was asked for facts")
        return self.settings, self.facts


@dataclass(frozen=True)
class Way(Generic[SettingsType, FactsType]):
    """How stacks of one sort are understood and judged."""

    model: type[SettingsType]
    gather: Callable[[SettingsType], FactsType]
    """Raises FactsError."""
    check_offline: Callable[[SettingsType], Sequence[Problem]]
    check: Callable[[SettingsType, FactsType], Sequence[Problem]]


def examine(raw: RawStack, *, offline: bool = False) -> Examined[Settings, Facts]:
    """Judge every rule that can be judged of a stack in AWS, also where something is wrong already."""
    way = Way(Settings, gather, validation.check_offline, validation.check)
    return judge(raw, way, offline=offline or not raw.region, stack=raw.stack, region=raw.region)


def settings_and_facts(raw: RawStack) -> tuple[Settings, Facts]:
    """What a program in AWS is built from. Raises SettingsError with all problems, or FactsError where AWS cannot be asked."""
    return examine(raw).whole


def judge(raw: RawStack, way: Way[SettingsType, FactsType], *, offline: bool, **known: str) -> Examined[SettingsType, FactsType]:
    """`known`: fields of the settings that are said elsewhere than in the file."""
    if not raw.is_readable:
        return Examined(None, problems=raw.problems)
    settings, form, doubtful = understand(way.model, raw.values, **known)
    told = (*raw.problems, *form)
    if settings is None:
        return Examined(None, None, told)
    facts: FactsType | None = None
    not_asked: str | None = None
    if offline:
        found, not_asked = way.check_offline(settings), "only the file was looked at"
    else:
        try:
            facts = way.gather(settings)
            found = way.check(settings, facts)
        except FactsError as error:
            found, not_asked = way.check_offline(settings), str(error)
    rules = [problem for problem in found if not is_doubtful(problem.path, doubtful)]
    problems = tuple(sorted(dict.fromkeys((*told, *rules)), key=lambda one: _place(one, way.model)))
    return Examined(settings, facts, problems, not_asked)


def _place(problem: Problem, model: Any) -> list[int]:
    """Where the settings have the problem's path: problems are told in the order of the README's table."""
    place: list[int] = []
    types: list[Any] = [model]
    for step in re.findall(r"[^.\[\]]+", problem.path):
        keys = [str(field.alias) for model in models_for(types, None) for field in model.model_fields.values()]
        if not place:
            keys = [*BEFORE, *keys]
        place.append(int(step) if step.isdecimal() else keys.index(step) if step in keys else len(keys))
        types = inner_types(types, None, int(step) if step.isdecimal() else step)
    return place
