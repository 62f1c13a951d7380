"""Values of job fields on the command line: `--set resources.memory=64Gi` and `--env NAME=VALUE`."""

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Annotated, Any

import typer

from cli.errors import CommandError
from cli.exit_codes import REFUSED, USAGE
from infra.config import yaml_text
from infra.config.models import find_inner_types
from infra.jobs.model import Job

Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Value of a field of the job, in YAML: `workers=4`, `resources.memory=64Gi`, `volumes[0].readOnly=true`.",
        show_default=False,
    ),
]
Env = Annotated[
    list[str] | None,
    typer.Option("--env", metavar="NAME=VALUE", help="Environment variable of every rank.", show_default=False),
]

_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")
Path = tuple[str | int, ...]


def split_pairs(option: str, texts: Sequence[str] | None) -> list[tuple[str, str]]:
    """Split `NAME=VALUE` at the first `=`. Raises CommandError for a text without a name or a value."""
    parts = [text.partition("=") for text in texts or ()]
    for name, equals, _ in parts:
        if not name or not equals:
            raise CommandError(f"{option} {name}: has no {'value' if name else 'name'}. Use {option} NAME=VALUE", USAGE)
    return [(name, value) for name, _, value in parts]


def parse_path(text: str) -> Path:
    """Split a path into keys and indexes.

    >>> path_of("volumes[0].mountPath"), path_of("env.NCCL_DEBUG")
    (('volumes', 0, 'mountPath'), ('env', 'NCCL_DEBUG'))
    """
    steps: list[str | int] = []
    end = 0
    while end < len(text) and (match := _STEP.match(text, end)):
        steps.append(int(match[2]) if match[2] else match[1])
        end = match.end()
    if end < len(text) or not steps:
        raise CommandError(f"--set {text}: is not a path. Use one such as resources.memory or volumes[0].name", USAGE)
    return tuple(steps)


def apply_assignments(
    values: Mapping[str, Any], assigned: Sequence[tuple[str, str]], variables: Sequence[tuple[str, str]] = ()
) -> Any:
    """Return a job's values, overridden first by `--set`, then by `--env`; later options win."""
    changed = deepcopy(dict(values))
    for path, text in assigned:
        _assign_value(changed, parse_path(path), text)
    if variables:
        env = changed.get("env") or {}
        changed["env"] = {**env, **dict(variables)} if isinstance(env, dict) else env
    return changed


def parse_value(path: Path, text: str) -> Any:
    """Return the text unchanged if the field is a string and the value is not quoted; otherwise parse it as YAML."""
    types: list[Any] = [Job]
    for step in path:
        types = find_inner_types(types, None, step)
    return text if types == [str] and text[:1] not in ("'", '"') else yaml_text.load_document(text)[0]


def _assign_value(values: Any, path: Path, text: str) -> None:
    *above, last = path
    holder = values
    for number, step in enumerate(above):
        if isinstance(step, str) and isinstance(holder, dict):
            holder = holder.setdefault(step, {} if isinstance(path[number + 1], str) else [])
        else:
            holder = find_element(holder, step, path)
    if isinstance(last, str) and isinstance(holder, dict):
        holder[last] = parse_yaml_value(path, text)
    elif isinstance(last, int) and isinstance(holder, list) and last == len(holder):
        holder.append(parse_yaml_value(path, text))
    else:
        find_element(holder, last, path)
        holder[last] = parse_yaml_value(path, text)


def find_element(holder: Any, step: str | int, path: Path) -> Any:
    if isinstance(step, int) and isinstance(holder, list) and step < len(holder):
        return holder[step]
    raise CommandError(f"--set {format_path(path)}: the job has no such element. Set all of {path[0]} instead", USAGE)


def parse_yaml_value(path: Path, text: str) -> Any:
    try:
        return parse_value(path, text)
    except yaml_text.NotYaml as error:
        raise CommandError(f"--set {format_path(path)}: the value {error}; quote it as in a job file", REFUSED) from None


def format_path(path: Path) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).lstrip(".")
