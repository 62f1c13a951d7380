"""First step of `pulumi up`, `plan` and `validate`: parse a stack and find all of its problems."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from infra import validation
from infra.config.models import find_inner_types, select_models
from infra.config.parse import Parsed, parse_model
from infra.config.problems import Problem, SettingsError, is_unreliable, remove_redundant_problems
from infra.config.stack_file import RawStack
from infra.facts import eks, existing_cluster, regions
from infra.facts.existing_cluster import ClusterFacts
from infra.facts.gather import gather_facts
from infra.facts.model import Facts, FactsError
from infra.facts.regions import UnknownRegion
from infra.settings.existing import ExistingSettings
from infra.settings.stack import Settings

FIRST_PATHS = ("config", "aws:region", "stack", "caller", "account")
"""Paths that are not settings. Problems at these paths are listed first."""

OFFLINE = "only the file was checked"
"""Reason why AWS was not queried."""

SettingsType = TypeVar("SettingsType", bound=Settings | ExistingSettings)
FactsType = TypeVar("FactsType", bound=Facts | ClusterFacts)


@dataclass(frozen=True)
class Examined(Generic[SettingsType, FactsType]):
    """A stack as far as it could be parsed, with its errors and warnings in the order of the settings table."""

    settings: SettingsType | None
    """Settings; None if too little of the file could be parsed. If there are errors, the settings may contain
    placeholder values."""
    facts: FactsType | None = None
    problems: tuple[Problem, ...] = ()
    """Errors, which stop `pulumi up`."""
    not_queried: str | None = None
    """Reason why neither AWS nor the cluster was queried. In that case, only the rules that need no queries
    were applied."""
    warnings: tuple[Problem, ...] = ()

    @property
    def settings_and_facts(self) -> tuple[SettingsType, FactsType]:
        """Settings and facts of a stack without errors. Raises SettingsError if there are errors, FactsError if there
        are no facts."""
        if self.problems or self.settings is None:
            raise SettingsError(self.problems)
        if self.facts is None:
            raise FactsError(self.not_queried or "neither AWS nor the cluster was queried")
        return self.settings, self.facts


def parse_aws_stack(raw: RawStack) -> Parsed[Settings]:
    """Parse a stack in AWS, and check only the types of its values."""
    return parse_model(Settings, raw.values, stack=raw.stack, region=raw.region)


def examine_aws_stack(raw: RawStack, *, offline: bool = False) -> Examined[Settings, Facts]:
    """Check a stack in AWS against every rule that applies, even if an earlier rule failed."""
    reason = OFFLINE if offline else "" if regions.is_region_name(raw.region) else regions.WRONG
    return examine_stack(raw, Settings, gather_facts, not_queried=reason, stack=raw.stack, region=raw.region)


def examine_existing_stack(raw: RawStack, *, offline: bool = False) -> Examined[ExistingSettings, ClusterFacts]:
    """Check a stack for an existing Kubernetes cluster. Makes no AWS call."""
    # Pulumi.yaml sets an empty default for every key of AWS stacks, so the user did not write these values.
    written = replace(raw, values={key: value for key, value in raw.values.items() if value not in ({}, [])})
    reason = OFFLINE if offline else ""
    return examine_stack(written, ExistingSettings, existing_cluster.gather_cluster_facts, not_queried=reason, stack=raw.stack)


def examine_stack(
    raw: RawStack,
    model: type[SettingsType],
    read_facts: Callable[[SettingsType], FactsType],
    *,
    not_queried: str,
    **fields: str,
) -> Examined[SettingsType, FactsType]:
    """Parse a stack and check it. `not_queried`: reason to check only the file; empty to query AWS or the cluster as well.
    `fields` contains the values that do not come from the file's settings.
    """
    if not raw.is_readable:
        return Examined(None, problems=raw.problems)
    parsed = parse_model(model, raw.values, **fields)
    settings, problems = parsed.model, [*raw.problems, *parsed.problems]
    if settings is None:
        return Examined(None, None, tuple(problems))
    facts: FactsType | None = None
    if not not_queried:
        try:
            facts = read_facts(settings)
        except UnknownRegion as error:
            not_queried = regions.WRONG
            problems.append(Problem("aws:region", f"{error}."))
        except FactsError as error:
            not_queried = str(error)
    reported = validation.run_rules(settings, facts, eks.get_current_date())
    problems += [problem for problem in reported if not is_unreliable(problem.path, parsed.placeholders)]
    ordered = sorted(remove_redundant_problems(problems), key=lambda problem: _find_sort_position(problem, model))
    errors = tuple(problem for problem in ordered if problem.is_error)
    return Examined(settings, facts, errors, not_queried or None, tuple(each for each in ordered if not each.is_error))


def _find_sort_position(problem: Problem, model: Any) -> list[int]:
    """Return a sort key: the position of the problem's path in the settings. The settings table has the same order."""
    position: list[int] = []
    types: list[Any] = [model]
    for step in re.findall(r"[^.\[\]]+", problem.path):
        keys = [str(field.alias) for model in select_models(types, None) for field in model.model_fields.values()]
        if not position:
            keys = [*FIRST_PATHS, *keys]
        position.append(int(step) if step.isdecimal() else keys.index(step) if step in keys else len(keys))
        types = find_inner_types(types, None, int(step) if step.isdecimal() else step)
    return position
