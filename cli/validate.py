"""`scripts/cluster validate`: every problem of a stack, or a summary of what it will be."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from cli import existing_cluster, summary
from infra import preflight, stack_file
from infra.facts import Facts
from infra.preflight import Examined
from infra.problems import Problem
from infra.settings import Settings

FINE, NOT_ASKED, USAGE, PROBLEMS = 0, 1, 2, 3

OFFLINE = (
    "not checked: whether AWS offers the types, zones, versions and add-ons, whether what the file names by id exists and fits, "
    "quotas, addresses of existing subnets"
)


def run(stack: str, folder: Path, *, offline: bool, as_json: bool) -> int:
    """Print what is wrong with a stack, or what it will be; the exit code says which."""
    try:
        path = stack_file.find(stack, folder)
    except stack_file.NoSuchStack as error:
        print(f"cluster validate: {error}", file=sys.stderr)
        return USAGE
    raw = stack_file.read(path)
    if stack_file.is_existing(raw.values):
        return existing_cluster.validate(path, raw, offline=offline, as_json=as_json)
    examined = preflight.examine(raw, offline=offline)
    code = PROBLEMS if examined.problems else FINE if offline or examined.facts else NOT_ASKED
    if as_json:
        print(json.dumps(_as_json(path, examined, code), indent=1))
    else:
        _print(path, examined, offline=offline)
    return code


def _print(path: Path, examined: Examined[Settings, Facts], *, offline: bool) -> None:
    console = Console(highlight=False, soft_wrap=True, markup=False)
    if examined.problems:
        print_problems(console, path, examined.problems)
    elif examined.settings and (offline or examined.facts):
        summary.show(console, examined.settings, examined.facts)
        console.print(f"{path.name}: no problems found", style="bold green")
    if offline:
        console.print(OFFLINE, style="yellow")
    elif examined.not_asked:
        found = "" if examined.problems else " and is fine"
        console.print(f"only the file was checked{found}: {examined.not_asked}", style="yellow")
    for sentence in examined.facts.unchecked if examined.facts else ():
        console.print(f"not checked: {sentence}", style="yellow")


def print_problems(console: Console, path: Path, problems: Sequence[Problem]) -> None:
    for problem in problems:
        console.print(str(problem), style="red")
    number = len(problems)
    console.print(f"{path.name}: {number} problem{'' if number == 1 else 's'}; nothing was started", style="bold")


def _as_json(path: Path, examined: Examined[Settings, Facts], code: int) -> dict[str, object]:
    settings, facts = examined.settings, examined.facts
    return {
        "file": str(path),
        "ok": code == FINE,
        "problems": [{"path": problem.path, "message": problem.message} for problem in examined.problems],
        "notAsked": examined.not_asked,
        "unchecked": list(facts.unchecked) if facts else [],
        "pools": [row.as_json() for row in summary.rows(settings, facts)] if settings and code == FINE else [],
    }
