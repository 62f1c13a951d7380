"""`validate JOB.yaml`: check a job file with the rules that need no cluster."""

from pathlib import Path
from typing import Final

from cli.console import make_console, print_json
from cli.exit_codes import OK, REFUSED
from infra.config import yaml_text
from infra.config.parse import parse
from infra.config.problems import Problem, is_unreliable, path_text, without_echoes
from infra.jobs.model import Job
from infra.jobs.validation import ALONE

LEFT_OUT: Final = "whether the cluster has the pool, namespace, volumes and priority; whether the job fits its nodes"


def is_job(path: Path) -> bool:
    """Return whether a file describes a job rather than a stack: in stack files, everything is under `config`."""
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
        listed = [{"path": problem.path, "message": problem.message, "severity": problem.severity} for problem in found]
        print_json({"file": str(path), "ok": not errors, "problems": listed, "unchecked": [LEFT_OUT]})
    else:
        console = make_console()
        for problem in found:
            if problem.is_error:
                console.print(str(problem), style="red")
            else:
                console.print(f"warning: {problem}", style="yellow")
        if number := len(errors):
            console.print(f"{path.name}: {number} problem{'' if number == 1 else 's'}; nothing was submitted", style="bold")
        else:
            console.print(f"{path.name}: no problems found", style="bold green")
        console.print(f"not checked: {LEFT_OUT}", style="yellow")
    return REFUSED if errors else OK


def problems(path: Path) -> list[Problem]:
    try:
        content, twice = yaml_text.read(path)
    except yaml_text.NotYaml as error:
        return [Problem(path.name, str(error))]
    found = [Problem(path_text(one.path), one.message) for one in twice]
    if not isinstance(content, dict):
        return [*found, Problem(path.name, "is not a job: it has no keys like name, pool and command")]
    job, form, placeholders = parse(Job, {str(key): value for key, value in content.items()})
    found += form
    if job is not None:
        rules = [problem for rule in ALONE for problem in rule(job)]
        found += [problem for problem in rules if not is_unreliable(problem.path, placeholders)]
    return list(dict.fromkeys(without_echoes(found)))
