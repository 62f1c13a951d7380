"""`validate JOB.yaml`: check a job file with the rules that need no cluster."""

from pathlib import Path
from typing import Final

from cli.console import make_console, print_json
from cli.errors import problem_count, problem_json, problem_line
from cli.exit_codes import OK, REFUSED
from infra.config import yaml_text
from infra.config.problems import Problem, without_echoes
from infra.jobs.reading import content_of, examined_alone

LEFT_OUT: Final = "whether the cluster has the pool, namespace, volumes and priority; whether the job fits its nodes"


def is_job(path: Path) -> bool:
    """Return whether a file is a job file. Stack files contain the key `config`, or their name starts with `Pulumi.`"""
    try:
        content, _ = yaml_text.read(path)
    except yaml_text.NotYaml:
        return not path.name.startswith("Pulumi.")
    return isinstance(content, dict) and "config" not in content and not path.name.startswith("Pulumi.")


def run(path: Path, *, as_json: bool) -> int:
    """Print the problems in a job file; return the exit code."""
    found = problems(path)
    errors = [problem for problem in found if problem.is_error]
    if as_json:
        listed = [problem_json(problem) for problem in found]
        print_json({"file": str(path), "ok": not errors, "problems": listed, "unchecked": [LEFT_OUT]})
    else:
        console = make_console()
        for problem in found:
            console.print(problem_line(problem), style="red" if problem.is_error else "yellow")
        if number := len(errors):
            console.print(problem_count(path.name, number, "submitted"), style="bold")
        else:
            console.print(f"{path.name}: no problems found", style="bold green")
        console.print(f"not checked: {LEFT_OUT}", style="yellow")
    return REFUSED if errors else OK


def problems(path: Path) -> list[Problem]:
    content, found = content_of(path)
    if content is not None:
        found += examined_alone(content)
    return list(dict.fromkeys(without_echoes(found)))
