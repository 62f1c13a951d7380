"""Reads and validates a job file, and reports all of its errors at once."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from infra.config import yaml_text
from infra.config.parse import parse
from infra.config.problems import Problem, is_unreliable, path_text, without_echoes
from infra.jobs.cluster import ClusterDescription
from infra.jobs.model import Job
from infra.jobs.validation import check


class JobRefused(Exception):
    """The job has errors, and nothing was created."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


OnWarning = Callable[[Problem], None]


def ignore(warning: Problem) -> None:
    """Discard a warning, for callers that do not show warnings."""


def read(
    path: Path,
    cluster: ClusterDescription,
    namespace: str | None = None,
    usual_namespace: str | None = None,
    on_warning: OnWarning = ignore,
) -> Job:
    """Read a job from a file. Its namespace is `namespace`, else the one in the file, else `usual_namespace`.

    Raises JobRefused if the job has errors, and OSError if the file cannot be read.
    """
    try:
        content, twice = yaml_text.read(path)
    except yaml_text.NotYaml as error:
        raise JobRefused([Problem(path.name, str(error))]) from None
    problems = [Problem(path_text(one.path), one.message) for one in twice]
    if not isinstance(content, dict):
        raise JobRefused([*problems, Problem(path.name, "is not a job: it has no keys like name, pool and command")])
    if namespace or usual_namespace:
        content = {"namespace": usual_namespace, **content} | ({"namespace": namespace} if namespace else {})
    return judged(content, cluster, problems, on_warning)


def judged(
    values: Mapping[str, object],
    cluster: ClusterDescription,
    problems: Sequence[Problem] = (),
    on_warning: OnWarning = ignore,
) -> Job:
    """Validate a job and return it. Raises JobRefused with all errors."""
    job, form, placeholders = parse(Job, {str(key): value for key, value in values.items()})
    found = [*problems, *form]
    if job is not None:
        found += [problem for problem in check(job, cluster) if not is_unreliable(problem.path, placeholders)]
    errors = [problem for problem in without_echoes(found) if problem.is_error]
    if job is None or errors:
        raise JobRefused(errors)
    for problem in without_echoes(found):
        on_warning(problem)
    return job
