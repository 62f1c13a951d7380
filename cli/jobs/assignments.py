"""Values of job fields on the command line: `--set resources.memory=64Gi` and `--env NAME=VALUE`."""

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Annotated, Any

import typer

from cli.errors import CommandError
from cli.exit_codes import REFUSED, USAGE
from infra.config import yaml_text
from infra.config.model_types import inner_types
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


def pairs(option: str, given: Sequence[str] | None) -> list[tuple[str, str]]:
    """Split `NAME=VALUE` at the first `=`. Raises CommandError for a text without a name or a value."""
    found = [one.partition("=") for one in given or ()]
    for name, equals, _ in found:
        if not name or not equals:
            raise CommandError(f"{option} {name}: has no {'value' if name else 'name'}. Use {option} NAME=VALUE", USAGE)
    return [(name, value) for name, _, value in found]


def path_of(text: str) -> Path:
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


def edited(values: Mapping[str, Any], assigned: Sequence[tuple[str, str]], variables: Sequence[tuple[str, str]] = ()) -> Any:
    """Return a job's values, overridden first by `--set`, then by `--env`; later options win."""
    changed = deepcopy(dict(values))
    for path, text in assigned:
        _assign(changed, path_of(path), text)
    if variables:
        env = changed.get("env") or {}
        changed["env"] = {**env, **dict(variables)} if isinstance(env, dict) else env
    return changed


def value_of(path: Path, text: str) -> Any:
    """Return the text unchanged if the field is a string and the value is not quoted; otherwise parse it as YAML."""
    types: list[Any] = [Job]
    for step in path:
        types = inner_types(types, None, step)
    return text if types == [str] and text[:1] not in ("'", '"') else yaml_text.load(text)[0]


def _assign(values: Any, path: Path, text: str) -> None:
    *above, last = path
    holder = values
    for number, step in enumerate(above):
        if isinstance(step, str) and isinstance(holder, dict):
            holder = holder.setdefault(step, {} if isinstance(path[number + 1], str) else [])
        else:
            holder = _element(holder, step, path)
    if isinstance(last, str) and isinstance(holder, dict):
        holder[last] = _parsed(path, text)
    elif isinstance(last, int) and isinstance(holder, list) and last == len(holder):
        holder.append(_parsed(path, text))
    else:
        _element(holder, last, path)
        holder[last] = _parsed(path, text)


def _element(holder: Any, step: str | int, path: Path) -> Any:
    if isinstance(step, int) and isinstance(holder, list) and step < len(holder):
        return holder[step]
    raise CommandError(f"--set {_shown(path)}: the job has no such element. Set all of {path[0]} instead", USAGE)


def _parsed(path: Path, text: str) -> Any:
    try:
        return value_of(path, text)
    except yaml_text.NotYaml as error:
        raise CommandError(f"--set {_shown(path)}: the value {error}; quote it as in a job file", REFUSED) from None


def _shown(path: Path) -> str:
    return "".join(f"[{one}]" if isinstance(one, int) else f".{one}" for one in path).lstrip(".")
