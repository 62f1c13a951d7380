"""`validate JOB.yaml`: check a job file with the rules that need no cluster."""

from pathlib import Path
from typing import Final

from cli.console import make_console, print_json
from cli.errors import format_problem, serialize_problem, summarize_problems
from cli.exit_codes import OK, REFUSED
from infra.config import yaml_text
from infra.config.problems import Problem, without_echoes
from infra.jobs.reading import check_values, read_values

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
    reported = find_problems(path)
    errors = [problem for problem in reported if problem.is_error]
    if as_json:
        listed = [serialize_problem(problem) for problem in reported]
        print_json({"file": str(path), "ok": not errors, "problems": listed, "unchecked": [LEFT_OUT]})
    else:
        console = make_console()
        for problem in reported:
            console.print(format_problem(problem), style="red" if problem.is_error else "yellow")
        if number := len(errors):
            console.print(summarize_problems(path.name, number, "submitted"), style="bold")
        else:
            console.print(f"{path.name}: no problems found", style="bold green")
        console.print(f"not checked: {LEFT_OUT}", style="yellow")
    return REFUSED if errors else OK


def find_problems(path: Path) -> list[Problem]:
    content, problems = read_values(path)
    if content is not None:
        problems += check_values(content)
    return list(dict.fromkeys(without_echoes(problems)))
