"""YAML as people write it, with what a parser usually swallows."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml


class NotYaml(Exception):
    """The text cannot be read; the message says why and where."""


@dataclass(frozen=True)
class Duplicate:
    """A key that is written twice in one mapping."""

    path: tuple[str | int, ...]
    message: str


def load(text: str) -> tuple[Any, list[Duplicate]]:
    """The one document of a text, and its duplicate keys. Raises NotYaml."""
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        content = loader.construct_document(node) if node else None
    except yaml.YAMLError as error:
        raise NotYaml(_message(error)) from None
    finally:
        loader.dispose()
    return content, list(_duplicates(node))


class _Loader(yaml.SafeLoader):
    """YAML as the Pulumi engine reads it: `yes`, `12:30` and dates are text."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag.rpartition(":")[2] in ("null", "merge")]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


for _kind, _pattern, _first in (
    ("bool", r"(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("int", r"[-+]?(?:0|[1-9][0-9_]*|0[0-7]+|0o[0-7]+|0x[0-9a-fA-F]+)$", "-+0123456789"),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$", "-+.0123456789"),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_kind}", re.compile(_pattern), list(_first))


def _duplicates(node: yaml.Node | None, path: tuple[str | int, ...] = ()) -> Iterator[Duplicate]:
    """Keys that are written twice."""
    if isinstance(node, yaml.MappingNode):
        lines: dict[str, int] = {}
        for key, value in node.value:
            name, line = str(key.value), key.start_mark.line + 1
            if name in lines:
                both = f"line {line}" if lines[name] == line else f"lines {lines[name]} and {line}"
                yield Duplicate((*path, name), f"is written twice, in {both}; keep one")
            lines[name] = line
            yield from _duplicates(value, (*path, name))
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield from _duplicates(value, (*path, index))


def _message(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    what = getattr(error, "problem", None) or "cannot be read"
    return f"is not YAML: {what}, line {mark.line + 1}, column {mark.column + 1}" if mark else f"is not YAML: {what}"
