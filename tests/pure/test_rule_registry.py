"""Every rule is registered once, with the parameters that the registry can pass and the queries on which it depends."""

import pkgutil
from collections.abc import Iterator
from importlib import import_module
from inspect import getmembers, isfunction, signature
from typing import Any

import pytest

from infra import validation
from infra.config.problems import Problem
from infra.facts.queries import Query
from infra.validation import registry
from infra.validation.registry import AWS, Topic, list_rules, register_rule, select_rules
from tests.pure.world import account_facts, ec2_settings, pool, settings

PARAMETERS = {"settings", "facts", "today"}


def list_rule_generators() -> set[Any]:
    """Return the public functions of the package that yield problems of a whole stack."""
    modules = [import_module(module.name) for module in pkgutil.iter_modules(validation.__path__, "infra.validation.")]
    public = {function for module in modules for name, function in getmembers(module, isfunction) if not name.startswith("_")}
    return {
        function
        for function in public
        if signature(function).return_annotation == Iterator[Problem] and signature(function).parameters.keys() <= PARAMETERS
    }


def test_every_public_validation_rule_is_registered() -> None:
    registered = [each.check for each in list_rules()]
    assert len(registered) > 100
    assert list_rule_generators() == set(registered)


def test_no_rule_is_registered_twice() -> None:
    registered = [each.check for each in list_rules()]
    assert len(registered) == len(set(registered))


@pytest.mark.parametrize("each", list_rules(), ids=lambda each: f"{each.check.__module__}.{each.check.__name__}")
def test_rule_parameters_are_known_to_the_registry(each: registry.Rule) -> None:
    assert "settings" in each.parameters <= PARAMETERS
    assert not each.reads or "facts" in each.parameters, "a rule that reads queries takes facts"


def test_every_topic_has_rules() -> None:
    assert {each.topic for each in list_rules()} == set(Topic)


def test_target_specific_rules_skip_stacks_of_other_targets() -> None:
    for stack in (settings(pool()), ec2_settings()):
        assert {stack.target.kind in each.targets for each in select_rules(stack)} == {True}
    assert {kind for each in list_rules() for kind in each.targets} == registry.ANY


def test_each_rule_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def count_calls(each: registry.Rule) -> registry.Rule:
        def check(**arguments: Any) -> Iterator[Problem]:
            calls.append(f"{each.check.__module__}.{each.check.__name__}")
            yield from each.check(**arguments)

        check.__signature__ = signature(each.check)  # type: ignore[attr-defined]
        return registry.Rule(check, each.topic, each.targets, each.reads, each.applies)

    counting = tuple(map(count_calls, list_rules()))
    monkeypatch.setattr(registry, "list_rules", lambda: counting)
    stack = settings(pool())
    validation.run_rules(stack, account_facts(stack))
    assert len(calls) > 50 and len(calls) == len(set(calls))


def test_problem_carries_the_topic_of_its_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_RULES", [])

    @register_rule(Topic.AMIS, target=AWS, reads=(Query.AMI,))
    def check_nothing(settings: Any, facts: Any) -> Iterator[Problem]:
        yield Problem("target.amiId", "is odd")

    monkeypatch.setattr(registry, "list_rules", lambda: tuple(registry._RULES))
    stack = settings(pool())
    assert validation.run_rules(stack) == []
    assert [problem.topic for problem in validation.run_rules(stack, account_facts(stack))] == [Topic.AMIS]
