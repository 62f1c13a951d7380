"""Registry of the rules that a stack must satisfy.

A rule is a function in a module of this package that is decorated with `rule` and yields problems. A rule's
parameters state what the rule needs: `settings`, `facts` (what AWS or the cluster reports) and `today`. Every run
reports all problems at once.
"""

import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum
from functools import cache
from importlib import import_module
from inspect import signature
from typing import Any, Final, ParamSpec

from infra.config import problems
from infra.config.problems import Problem, is_below, remove_redundant_problems
from infra.facts.existing_cluster import ClusterFacts
from infra.facts.model import Facts
from infra.facts.queries import Query
from infra.settings.existing import ExistingSettings
from infra.settings.stack import Settings

Parameters = ParamSpec("Parameters")
AnyStack = Settings | ExistingSettings

EC2: Final = frozenset({"ec2"})
EKS: Final = frozenset({"eks"})
EXISTING: Final = frozenset({"existing"})
AWS: Final = EKS | EC2
KUBERNETES: Final = EKS | EXISTING
ANY: Final = AWS | EXISTING


class Topic(StrEnum):
    """What a rule checks. `plan` prints one result per topic, in this order."""

    STACK_FILE = problems.STACK_FILE
    TYPES = "instance types and zones"
    VCPU_QUOTAS = "vCPU quotas"
    NODE_GROUPS = "node groups per cluster"
    RESERVATIONS = "reservations and Capacity Blocks"
    PLACEMENT_GROUPS = "placement groups"
    AMIS = "AMIs"
    ENDPOINT_SERVICES = "VPC endpoint services"
    VPC = "existing VPC"
    ADDRESSES = "free addresses in subnets"
    FILE_SYSTEM = "existing file system"
    LUSTRE = "FSx for Lustre"
    BUCKET = "bucket linked to FSx"
    LUSTRE_KEY = "key of FSx"
    EBS_KEY = "default key of EBS"
    VERSIONS = "Kubernetes version and add-ons"
    ADMINS = "cluster admins"
    CHANGES = "changes of the existing cluster"
    MANIFESTS = "upstream manifests"
    BUDGET = "budget"
    JOBS = "jobs fit their pools"


@dataclass(frozen=True)
class Rule:
    """A function that yields problems, and the stacks to which the rule applies."""

    check: Callable[..., Iterator[Problem]]
    topic: Topic
    targets: frozenset[str]
    """Values of `target.kind` of the stacks to which the rule applies."""
    reads: tuple[Query, ...]
    """Queries of AWS whose results the rule depends on."""
    applies: Callable[[Any], bool]
    """Whether a stack with these settings uses what the rule checks."""

    @property
    def parameters(self) -> frozenset[str]:
        return frozenset(signature(self.check).parameters)

    @property
    def sort_key(self) -> tuple[object, ...]:
        """Sort key: rules about the stack file alone, for all AWS stacks, come first."""
        module, line = self.check.__module__, self.check.__code__.co_firstlineno
        return "facts" in self.parameters, list(Topic).index(self.topic), self.targets != AWS, module, line


_RULES: list[Rule] = []


def register_rule(
    topic: Topic = Topic.STACK_FILE,
    *,
    target: frozenset[str] = AWS,
    reads: tuple[Query, ...] = (),
    applies: Callable[[Any], bool] = lambda settings: True,
) -> Callable[[Callable[Parameters, Iterator[Problem]]], Callable[Parameters, Iterator[Problem]]]:
    """Register a rule."""

    def register_check(check: Callable[Parameters, Iterator[Problem]]) -> Callable[Parameters, Iterator[Problem]]:
        _RULES.append(Rule(check, topic, target, reads, applies))
        return check

    return register_check


@cache
def list_rules() -> tuple[Rule, ...]:
    """Return the rules of all modules in this package, in the order in which they run."""
    package = __name__.rpartition(".")[0]
    for module in pkgutil.iter_modules(import_module(package).__path__, f"{package}."):
        import_module(module.name)
    return tuple(sorted(_RULES, key=lambda each: each.sort_key))


def select_rules(settings: AnyStack) -> Iterator[Rule]:
    """Yield the rules for a stack's kind of target that apply to its settings."""
    kind = settings.target.kind
    return (each for each in list_rules() if kind in each.targets and each.applies(settings))


def run_rules(settings: AnyStack, facts: Facts | ClusterFacts | None = None, today: date | None = None) -> list[Problem]:
    """Run each rule of a stack once, and return all errors and warnings.

    Without facts, only the rules about the stack file run. Without a date, the rules that need one do not run.
    """
    today = facts.today if isinstance(facts, Facts) else today
    values = {"settings": settings, "facts": facts, "today": today}
    available = {name: value for name, value in values.items() if value is not None}
    all_problems: list[Problem] = []
    malformed: set[str] = set()
    for each in select_rules(settings):
        if not each.parameters <= available.keys():
            continue
        reported = list(each.check(**{name: available[name] for name in each.parameters}))
        if "facts" in each.parameters:  # ignore what AWS or the cluster reports about malformed values
            reported = [problem for problem in reported if not _may_repeat_malformed_value(problem, malformed, settings)]
        else:
            malformed |= {problem.path for problem in reported if problem.is_error}
        all_problems += [replace(problem, topic=each.topic) for problem in reported]
    return remove_redundant_problems(all_problems)


def _may_repeat_malformed_value(problem: Problem, malformed: set[str], settings: AnyStack) -> bool:
    """Return whether a problem may only repeat that a value is malformed. On existing clusters, such a problem can
    also concern a node selector that contains a malformed label."""
    if settings.target.kind in EXISTING:
        return any(is_below(path, problem.path) for path in malformed)
    return problem.path in malformed
