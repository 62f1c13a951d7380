"""Template variables, such as `$NUM_NODES`, `${IMAGE_URI}` and `<account>`, that users replace with envsubst or by
hand.
"""

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final

from cli.jobs.importing.source import Path
from infra.config.problems import format_path

_NAME: Final = re.compile(r"(?<!\$)\$\{(?P<braced>[A-Za-z_]\w*)\}|(?<!\$)\$(?P<plain>[A-Za-z_]\w*)|<(?P<angle>[A-Za-z][\w-]*)>")
_ESCAPED: Final = re.compile(r"\$\$(?=[A-Za-z_{])")
"""envsubst turns `$$NAME` into `$NAME`: https://github.com/a8m/envsubst. Kubernetes' own escape `$$(NAME)` stays
unchanged.
"""
_ASSIGNED: Final = re.compile(r"\b([A-Za-z_]\w*)\+?=|\b(?:for|read|local|export)\s+(?:-\w+\s+)*([A-Za-z_]\w*)")
_SHELLS: Final = ("sh", "bash", "dash", "ash", "zsh")


@dataclass(frozen=True)
class Unset:
    """A template variable for which `--set` gave no value."""

    name: str
    path: str


def replace_variables(value: Any, values: Mapping[str, str], path: Path = ()) -> Any:
    """Return the document, with the variables in `values` replaced.

    A replaced string that contains only digits becomes a number.
    """
    if isinstance(value, Mapping):
        return {
            str(replace_variables(key, values)): replace_variables(inner, values, (*path, key)) for key, inner in value.items()
        }
    if isinstance(value, list):
        return [replace_variables(inner, values, (*path, number)) for number, inner in enumerate(value)]
    if not isinstance(value, str):
        return value
    filled = _NAME.sub(lambda match: values.get(_get_variable_name(match), match[0]), value)
    if values:
        filled = _ESCAPED.sub("$", filled)
    is_number = filled != value and re.fullmatch(r"\d+", filled) and not _requires_string(path)
    return int(filled) if is_number else filled


def _requires_string(path: Path) -> bool:
    """Return whether Kubernetes requires a string at this path, even if the value looks like a number."""
    return "command" in path or "args" in path or path[-1:] == ("value",)


def find_unset(value: Any, path: Path = ()) -> Iterator[Unset]:
    """Yield template variables that nothing expands. Outside shell scripts, Kubernetes leaves `$NAME` unchanged."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key in ("command", "args") and isinstance(inner, list):
                yield from _find_unset_in_command(value, key, (*path, key))
            elif not (key == "value" and is_self_reference(value)):
                yield from find_unset(inner, (*path, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from find_unset(inner, (*path, number))
    elif isinstance(value, str):
        yield from (Unset(_get_variable_name(match), format_path(path)) for match in _NAME.finditer(value))


def find_shell_variables(words: Sequence[str], defined: Set[str]) -> list[str]:
    """Return the variables in a `sh -c` script that neither the script nor `defined` sets, except standard variables such
    as PATH.
    """
    if not _is_shell_command(words):
        return []
    text = "\n".join(words[1:])
    own = {name for match in _ASSIGNED.finditer(text) for name in match.groups() if name}
    names = dict.fromkeys(_get_variable_name(match) for match in _NAME.finditer(text) if not match["angle"])
    return [name for name in names if name not in own | defined | _OF_SHELLS]


_OF_SHELLS: Final = frozenset({"PATH", "HOME", "PWD", "USER", "HOSTNAME", "LD_LIBRARY_PATH", "PYTHONPATH", "RANDOM", "SECONDS"})


def _is_shell_command(words: Sequence[Any]) -> bool:
    return bool(words) and str(words[0]).rpartition("/")[2] in _SHELLS


def _find_unset_in_command(container: Mapping[str, Any], key: str, path: Path) -> Iterator[Unset]:
    if _is_shell_command([*(container.get("command") or []), *(container.get("args") or [])]):
        return
    for number, word in enumerate(container[key]):
        yield from find_unset(word, (*path, number))


def is_self_reference(variable: Mapping[str, Any]) -> bool:
    """Return whether an environment variable extends the value that it has in the image, such as `$PATH:/opt/bin` for
    PATH.
    """
    text = str(variable.get("value"))
    return not _NAME.fullmatch(text) and any(_get_variable_name(match) == variable.get("name") for match in _NAME.finditer(text))


def find_variable_names(text: str) -> set[str]:
    """Return the names of all variables in a text."""
    return {_get_variable_name(match) for match in _NAME.finditer(text)}


def _get_variable_name(match: "re.Match[str]") -> str:
    return match["braced"] or match["plain"] or match["angle"]
