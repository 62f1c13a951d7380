"""A job file -> a job, or every problem it has."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from infra.config import yaml_text
from infra.config.parse import parse
from infra.config.problems import Problem, is_unreliable, path_text
from infra.jobs.cluster import ClusterDescription
from infra.jobs.model import Job
from infra.jobs.validation import check


class JobRefused(Exception):
    """A job with problems: nothing of it was created."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


def read(path: Path, cluster: ClusterDescription, namespace: str | None = None, usual_namespace: str | None = None) -> Job:
    """The job of a file, in `namespace` whatever it says, in `usual_namespace` where it says nothing.

    Raises JobRefused, and OSError where there is no file.
    """
    try:
        content, twice = yaml_text.read(path)
    except yaml_text.NotYaml as error:
        raise JobRefused([Problem(path.name, str(error))]) from None
    problems = [Problem(path_text(one.path), one.message) for one in twice]
    if not isinstance(content, dict):
        raise JobRefused([*problems, Problem(path.name, "is no job: it holds no keys like name, pool and command")])
    if namespace or usual_namespace:
        content = {"namespace": usual_namespace, **content} | ({"namespace": namespace} if namespace else {})
    return judged(content, cluster, problems)


def judged(values: Mapping[str, object], cluster: ClusterDescription, problems: Sequence[Problem] = ()) -> Job:
    """The job, all rules judged in one go. Raises JobRefused."""
    job, form, placeholders = parse(Job, {str(key): value for key, value in values.items()})
    found = [*problems, *form]
    if job is not None:
        found += [problem for problem in check(job, cluster) if not is_unreliable(problem.path, placeholders)]
    if job is None or found:
        raise JobRefused(list(dict.fromkeys(found)))
    return job
