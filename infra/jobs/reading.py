"""Reads and validates a job file, and reports all of its errors at once."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from infra.config import yaml_text
from infra.config.parse import parse_model
from infra.config.problems import Problem, format_path, is_unreliable, remove_redundant_problems
from infra.jobs.cluster import ClusterDescription
from infra.jobs.model import Job
from infra.jobs.placed import PlacedJob
from infra.jobs.validation import check_without_cluster, examine_job


class JobRefused(Exception):
    """The job has errors, and nothing was created."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


OnWarning = Callable[[Problem], None]
Edit = Callable[[Mapping[str, object]], Mapping[str, object]]
"""Changes the values of a job file before they are validated."""

SUFFIX_CHARACTERS, SUFFIX_LENGTH = "bcdfghjklmnpqrstvwxz2456789", 5
"""The alphabet that Kubernetes uses for `generateName`: no vowels, and no digits that look like letters.
https://github.com/kubernetes/kubernetes/blob/v1.35.0/staging/src/k8s.io/apimachinery/pkg/util/rand/rand.go
"""


def ignore_warning(warning: Problem) -> None:
    """Discard a warning, for callers that do not show warnings."""


def read_job(
    path: Path,
    cluster: ClusterDescription,
    namespace: str | None = None,
    usual_namespace: str | None = None,
    on_warning: OnWarning = ignore_warning,
    edit: Edit = dict,
) -> PlacedJob:
    """Read a job from a file and edit it. The job's namespace is `namespace`, or else the namespace in the file, or
    else `usual_namespace`.

    Raises JobRefused if the job has errors, and OSError if the file cannot be read.
    """
    content, problems = read_job_values(path)
    if content is None:
        raise JobRefused(problems)
    content = edit(content)
    if namespace or usual_namespace:
        content = {"namespace": usual_namespace, **content} | ({"namespace": namespace} if namespace else {})
    return validate_job(content, cluster, problems, on_warning)


def validate_job(
    values: Mapping[str, object],
    cluster: ClusterDescription,
    problems: Sequence[Problem] = (),
    on_warning: OnWarning = ignore_warning,
) -> PlacedJob:
    """Validate a job and place it in its cluster. Raises JobRefused with all errors."""
    placed = None
    job, wrong_values, placeholders = parse_model(Job, add_job_name(values))
    problems = [*problems, *wrong_values]
    if job is not None:
        placed, more = examine_job(job, cluster)
        problems += [problem for problem in more if not is_unreliable(problem.path, placeholders)]
    problems = remove_redundant_problems(problems)
    errors = [problem for problem in problems if problem.is_error]
    if placed is None or errors:
        raise JobRefused(errors)
    for problem in problems:
        on_warning(problem)
    return placed


def check_job_values(values: Mapping[str, object]) -> list[Problem]:
    """Return the problems found by checking keys and types, and by the rules that need no cluster."""
    job, problems, placeholders = parse_model(Job, add_job_name(values))
    if job is not None:
        problems = [
            *problems,
            *(problem for problem in check_without_cluster(job) if not is_unreliable(problem.path, placeholders)),
        ]
    return problems


def read_job_values(path: Path) -> tuple[Mapping[str, object] | None, list[Problem]]:
    """Return the content of a job file (None if the file contains no mapping) and the problems found in its YAML.
    Raises OSError if the file cannot be read."""
    try:
        content, duplicates = yaml_text.read_document(path)
    except yaml_text.NotYaml as error:
        return None, [Problem(path.name, str(error))]
    problems = [Problem(format_path(duplicate.path), duplicate.message) for duplicate in duplicates]
    if not isinstance(content, dict):
        return None, [*problems, Problem(path.name, "is not a job: it has no keys like name, pool and command")]
    return {str(key): value for key, value in content.items()}, problems


def add_job_name(values: Mapping[str, object]) -> dict[str, object]:
    """Return the values with a name: the name from the file or the caller, or `generateName` followed by random characters."""
    start = values.get("generateName")
    if "name" in values or not isinstance(start, str):
        return dict(values)
    return {**values, "name": start + "".join(secrets.choice(SUFFIX_CHARACTERS) for _ in range(SUFFIX_LENGTH))}
