"""YAML loader that reports problems most parsers ignore: duplicate keys, recursive aliases, and non-text files."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml


class NotYaml(Exception):
    """The text is not valid YAML. The message gives the reason and the position."""


@dataclass(frozen=True)
class Duplicate:
    """A key that occurs twice in one mapping."""

    path: tuple[str | int, ...]
    message: str


MAXIMUM_VALUES = 100_000
"""Maximum number of values after aliases are expanded. Files with hundreds of pools and jobs have far fewer values."""


def read_document(path: Path) -> tuple[Any, list[Duplicate]]:
    """Return the only document of a file, and its duplicate keys. Raises NotYaml, or OSError if there is no file."""
    try:
        return load_document(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise NotYaml(f"is not UTF-8 text: byte {error.start + 1} is wrong; save it as UTF-8") from None


def load_document(text: str) -> tuple[Any, list[Duplicate]]:
    """Return the only document in a string of YAML, and its duplicate keys. Raises NotYaml."""
    with _open_loader(_Loader, text) as loader:
        node = loader.get_single_node()
        _check_aliases(node)
        duplicates = list(_find_duplicate_keys(node))  # must run before construct_document, which merges `<<`
        return loader.construct_document(node) if node else None, duplicates


def load_documents(text: str) -> list[Any]:
    """Return the documents of a stream, with scalars resolved as in YAML 1.1, which Kubernetes uses.

    Raises NotYaml.
    """
    documents = []
    with _open_loader(yaml.SafeLoader, text) as loader:
        while loader.check_node():
            node = loader.get_node()
            _check_aliases(node)
            documents.append(loader.construct_document(node))
    return documents


@contextmanager
def _open_loader(kind: type[yaml.SafeLoader], text: str) -> Iterator[yaml.SafeLoader]:
    """Convert the loader's errors to NotYaml, and dispose of the loader at the end."""
    loader = None
    try:
        loader = kind(text)  # reads the text, and rejects control characters
        yield loader
    except yaml.YAMLError as error:
        raise NotYaml(_format_error(error)) from None
    except RecursionError:
        raise NotYaml("is nested too deeply; reduce the nesting") from None
    finally:
        if loader is not None:
            loader.dispose()


def _check_aliases(node: yaml.Node | None) -> None:
    """Reject aliases that contain themselves or that expand to too many values. Raises NotYaml."""
    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()

    def count_values(value: yaml.Node) -> int:
        if id(value) in open_nodes:
            raise NotYaml(f"has an alias that contains itself, line {value.start_mark.line + 1}. Write the value out.")
        if id(value) not in sizes:
            open_nodes.add(id(value))
            sizes[id(value)] = 1 + sum(count_values(child) for child in _list_child_nodes(value))
            open_nodes.discard(id(value))
        return sizes[id(value)]

    if node is not None and count_values(node) > MAXIMUM_VALUES:
        raise NotYaml(f"has more than {MAXIMUM_VALUES} values once its aliases are expanded. Write it without them.")


def _list_child_nodes(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [child for pair in node.value for child in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


class _Loader(yaml.SafeLoader):
    """YAML loader that resolves scalars as the Pulumi engine does: `yes`, `12:30` and dates are strings."""

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


def _find_duplicate_keys(node: yaml.Node | None, path: tuple[str | int, ...] = ()) -> Iterator[Duplicate]:
    """Yield each key that occurs more than once in a mapping."""
    if isinstance(node, yaml.MappingNode):
        lines: dict[str, int] = {}
        for key, value in node.value:
            name, line = str(key.value), key.start_mark.line + 1
            if name in lines:
                both = f"line {line}" if lines[name] == line else f"lines {lines[name]} and {line}"
                yield Duplicate((*path, name), f"is set twice, on {both}; keep one")
            lines[name] = line
            yield from _find_duplicate_keys(value, (*path, name))
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield from _find_duplicate_keys(value, (*path, index))


def _format_error(error: yaml.YAMLError) -> str:
    if isinstance(error, yaml.reader.ReaderError):
        return f"is not YAML: it has the control character U+{error.character:04X}. Remove it."
    mark = getattr(error, "problem_mark", None)
    what = getattr(error, "problem", None) or "cannot be read"
    return f"is not YAML: {what}, line {mark.line + 1}, column {mark.column + 1}" if mark else f"is not YAML: {what}"
