"""What `pulumi up` and `scripts/cluster validate` do first: parse a stack and find every problem it has."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from infra import validation
from infra.config.parse import inner_types, models_for, parse
from infra.config.problems import Problem, SettingsError, is_unreliable
from infra.config.stack_file import RawStack
from infra.facts import Facts, FactsError, existing_cluster, gather
from infra.facts.existing_cluster import ClusterFacts
from infra.settings.existing import ExistingSettings
from infra.settings.stack import Settings
from infra.validation import existing_cluster as validation_existing

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
class TargetChecks(Generic[SettingsType, FactsType]):
    """How stacks of one sort are understood and judged."""

    model: type[SettingsType]
    gather: Callable[[SettingsType], FactsType]
    """Raises FactsError."""
    check_offline: Callable[[SettingsType], Sequence[Problem]]
    check: Callable[[SettingsType, FactsType], Sequence[Problem]]


def examine_aws(raw: RawStack, *, offline: bool = False) -> Examined[Settings, Facts]:
    """Check a stack in AWS against every rule that applies, even when an earlier rule already failed."""
    checks = TargetChecks(Settings, gather, validation.check_offline, validation.check)
    return judge(raw, checks, offline=offline or not raw.region, stack=raw.stack, region=raw.region)


def examine_existing(raw: RawStack, *, offline: bool = False) -> Examined[ExistingSettings, ClusterFacts]:
    """Check a stack for an existing Kubernetes cluster. Makes no AWS call."""
    # Pulumi.yaml gives every key of a stack in AWS an empty default
    written = replace(raw, values={key: value for key, value in raw.values.items() if value not in ({}, [])})
    rules = validation_existing
    checks = TargetChecks(ExistingSettings, existing_cluster.gather, rules.check_offline, rules.check)
    return judge(written, checks, offline=offline, stack=raw.stack)


def judge(
    raw: RawStack, way: TargetChecks[SettingsType, FactsType], *, offline: bool, **known: str
) -> Examined[SettingsType, FactsType]:
    """`known`: fields of the settings that are said elsewhere than in the file."""
    if not raw.is_readable:
        return Examined(None, problems=raw.problems)
    settings, form, placeholders = parse(way.model, raw.values, **known)
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
    rules = [problem for problem in found if not is_unreliable(problem.path, placeholders)]
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
