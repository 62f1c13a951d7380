"""Raw values of a stack before parsing: from its file (command line) or from the Pulumi engine (program)."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.config import yaml_text
from infra.config.messages import find_similar, suggest_correction
from infra.config.parse import Encrypted
from infra.config.problems import Problem, format_path
from infra.config.secrets import find_secrets

NAMESPACE = "gpumpi"
PULUMI = "pulumi"
"""Namespace of the engine's own keys, such as `pulumi:tags` and `pulumi:disable-default-providers`."""
EXISTING = "existing"
"""Target kind for an existing Kubernetes cluster. Stacks with this kind have their own settings:
`infra.settings.existing`."""
_FILE_NAME = re.compile(r"Pulumi\.(.+)\.ya?ml")


@dataclass(frozen=True)
class RawStack:
    """Raw values of one stack."""

    stack: str
    region: str
    """Value of `aws:region`. Empty for an existing cluster. In AWS stacks, also empty if the key is missing, which is
    reported as a problem."""
    values: Mapping[str, object]
    """Maps each key in the namespace `gpumpi`, without that prefix, to its value."""
    problems: tuple[Problem, ...] = ()
    is_readable: bool = True
    """Whether the file could be read. If not, only the problem with reading the file is reported."""

    @property
    def target_kind(self) -> str:
        """Value of `target.kind`; empty if it is missing or is not text."""
        return _read_target_kind(self.values)


class NoSuchStack(Exception):
    """The stack has no file."""


# --- from a file -------------------------------------------------------------------------------------------------------


def list_stack_names(folder: Path) -> list[str]:
    """Return the names of the stacks that have a file in the folder."""
    return sorted(match[1] for path in folder.glob("Pulumi.*") if (match := _FILE_NAME.fullmatch(path.name)))


def find_stack_file(stack: str, folder: Path) -> Path:
    """Return the path of a stack's file in a folder. Raises NoSuchStack."""
    short = stack.rpartition("/")[2]
    for ending in ("yaml", "yml"):
        path = folder / f"Pulumi.{short}.{ending}"
        if path.is_file():
            return path
    stacks = list_stack_names(folder)
    if not stacks:
        raise NoSuchStack(f"there is no stack file in {folder}")
    hint = suggest_correction(short, stacks) or "."
    raise NoSuchStack(f'there is no stack "{short}" in {folder}{hint} There are {", ".join(stacks)}')


def read_stack_file(path: Path) -> RawStack:
    """Read a stack from its file. Unreadable content is reported as a problem, never as an exception."""
    match = _FILE_NAME.fullmatch(path.name)
    stack = match[1] if match else path.stem
    try:
        content, duplicates = yaml_text.read_document(path)
    except yaml_text.NotYaml as error:
        return RawStack(stack, "", {}, (Problem(path.name, str(error)),), is_readable=False)
    config = content.get("config") if isinstance(content, dict) else None
    if not isinstance(config, dict):
        missing = Problem("config", "is missing; put the settings below `config:`")
        return RawStack(stack, "", {}, (missing,), is_readable=False)
    config = {str(key): _to_engine_scalar(_to_engine_value(value)) for key, value in config.items()}
    return _split_config(stack, config, tuple(Problem(_to_user_path(each.path), each.message) for each in duplicates))


def _to_user_path(path: tuple[str | int, ...]) -> str:
    """Convert a path in the file to the form that problem messages use."""
    if path[0] == "config" and len(path) > 1:
        path = (str(path[1]).removeprefix(f"{NAMESPACE}:"), *path[2:])
    return format_path(path)


def _to_engine_value(value: Any) -> Any:
    """Convert a value as the engine would: to JSON types, with encrypted values marked."""
    if isinstance(value, dict):
        if set(value) == {"secure"}:
            return Encrypted()
        return {str(key): _to_engine_value(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_to_engine_value(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _to_engine_scalar(value: Any) -> Any:
    """Convert a top-level scalar to a string, because the engine passes top-level values only as strings and JSON."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


# --- from the engine ---------------------------------------------------------------------------------------------------


def read_running_stack() -> RawStack:
    """Return the raw values of the stack that the running Pulumi program deploys."""
    import pulumi  # slow to import
    from pulumi.runtime import config as engine

    values: dict[str, Any] = {**engine.get_config_env(), **engine.CONFIG.get()}
    config = {
        key: Encrypted() if engine.is_config_secret(key) else _decode_json(value) if key.startswith(f"{NAMESPACE}:") else value
        for key, value in values.items()
    }
    return _split_config(pulumi.get_stack(), config, ())


def _decode_json(value: Any) -> Any:
    if isinstance(value, str) and value.startswith(("{", "[")):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


# --- both --------------------------------------------------------------------------------------------------------------


def _split_config(stack: str, config: Mapping[str, Any], earlier: tuple[Problem, ...]) -> RawStack:
    """Split the configuration into `gpumpi` keys, the region, and problems with other keys."""
    values: dict[str, Any] = {}
    problems = list(earlier)
    for key, value in config.items():
        namespace, colon, name = key.partition(":")
        if not colon or namespace == NAMESPACE:
            values[name if colon else key] = value
        elif namespace == PULUMI:
            continue
        elif find_similar(namespace, [NAMESPACE]):
            problems.append(Problem(key, f"is ignored. Did you mean {NAMESPACE}:{name}?"))
        else:
            remedy = f"revoke it, and set a new one with `pulumi config set --secret {key}`"
            problems.extend(find_secrets({key: value}, remedy=remedy))
    region = config.get("aws:region", "")
    if uses_existing_cluster(values):
        if "aws:region" in config:
            reason = "is ignored, because a stack on an existing cluster does not query AWS"
            problems.append(Problem("aws:region", f"{reason}; remove it"))
        return RawStack(stack, "", values, tuple(problems))
    if not region or not isinstance(region, str):
        problems.append(Problem("aws:region", "is missing. Add it, for example `aws:region: us-west-2`."))
        region = ""
    return RawStack(stack, region, values, tuple(problems))


def uses_existing_cluster(values: Mapping[str, object]) -> bool:
    """Return whether a stack uses an existing cluster. Such stacks have their own settings and make no AWS calls."""
    return _read_target_kind(values) == EXISTING


def _read_target_kind(values: Mapping[str, object]) -> str:
    target = values.get("target")
    kind = target.get("kind") if isinstance(target, Mapping) else None
    return kind if isinstance(kind, str) else ""
