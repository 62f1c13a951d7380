"""`validate JOB.yaml`: check a job file with the rules that need no cluster."""

from pathlib import Path
from typing import Final

from cli.stacks.validate.file_report import FileReport
from infra.config import yaml_text
from infra.config.problems import Problem, remove_redundant_problems
from infra.jobs.reading import check_job_values, read_job_values

LEFT_OUT: Final = "whether the cluster has the pool, namespace, volumes and priority; whether the job fits its nodes"


def is_job_file(path: Path) -> bool:
    """Return whether a file is a job file. Stack files contain the key `config`, or their name starts with `Pulumi.`"""
    try:
        content, _ = yaml_text.read_document(path)
    except yaml_text.NotYaml:
        return not path.name.startswith("Pulumi.")
    return isinstance(content, dict) and "config" not in content and not path.name.startswith("Pulumi.")


def validate_job_file(path: Path, *, as_json: bool) -> int:
    """Print the problems in a job file; return the exit code."""
    return FileReport(path, find_problems(path), "submitted", "no problems found", [LEFT_OUT]).print_problems(as_json=as_json)


def find_problems(path: Path) -> list[Problem]:
    content, problems = read_job_values(path)
    if content is not None:
        problems += check_job_values(content)
    return list(dict.fromkeys(remove_redundant_problems(problems)))
