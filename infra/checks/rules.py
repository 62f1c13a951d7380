"""Checks built from the rules in `infra.validation`, which also stop `pulumi up`: one check per topic of rules."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from infra.checks.model import Answer, build_unknown_answer
from infra.config.problems import Problem
from infra.facts.model import Facts
from infra.facts.queries import Query
from infra.inventory.bill import Bill
from infra.preflight import Examined
from infra.settings.stack import Settings
from infra.validation.budget import compare_with_budget
from infra.validation.registry import AWS, Rule, Topic, list_rules, select_rules


def check_topics(examined: Examined[Settings, Facts]) -> Iterator[Answer]:
    """Yield the result of each topic that concerns the stack, from the problems that `validate` and `pulumi up` report."""
    settings, facts = examined.settings, examined.facts
    reported: dict[str, list[Problem]] = defaultdict(list)
    for problem in (*examined.problems, *examined.warnings):
        reported[problem.topic].append(problem)
    yield _summarize_topic(Topic.STACK_FILE, reported[Topic.STACK_FILE])
    for topic, queries in group_queries_by_topic(select_rules(settings) if settings else ()).items():
        if topic in (Topic.STACK_FILE, Topic.BUDGET):
            continue  # `check_budget` compares the budget with the bill, even without data from AWS
        if facts is None:
            yield build_unknown_answer(topic, examined.not_queried or "AWS was not queried")
            continue
        unread = sorted(sentence for query in queries for sentence in facts.unchecked.get(query, ()))
        answer = _summarize_topic(topic, reported[topic])
        yield build_unknown_answer(topic, *unread) if unread and answer.verdict == "yes" else answer


def check_budget(settings: Settings, bill: Bill) -> Iterator[Answer]:
    """Compare the planned cluster's bill with the budget."""
    if settings.budget.is_set:
        yield _summarize_topic(Topic.BUDGET, list(compare_with_budget(settings, bill)))


def group_queries_by_topic(of_rules: Iterable[Rule]) -> dict[Topic, tuple[Query, ...]]:
    """Return the topics of the rules in order, each with the queries on which its rules depend."""
    reads: dict[Topic, dict[Query, None]] = {}
    for rule in of_rules:
        reads.setdefault(rule.topic, {}).update(dict.fromkeys(rule.reads))
    return {topic: tuple(reads[topic]) for topic in Topic if topic in reads}


def group_operations_by_topic() -> dict[Topic, tuple[str, ...]]:
    """Return the AWS operations on which each check of an AWS stack depends."""
    queries = group_queries_by_topic(rule for rule in list_rules() if rule.targets & AWS)
    return {
        topic: tuple(dict.fromkeys(name for query in of_topic for name in query.operations))
        for topic, of_topic in queries.items()
    }


def _summarize_topic(topic: Topic, problems: Sequence[Problem]) -> Answer:
    errors = tuple(str(problem) for problem in problems if problem.is_error)
    warnings = tuple(str(problem) for problem in problems if not problem.is_error)
    return Answer(topic, "no" if errors else "yes", errors, warnings)
