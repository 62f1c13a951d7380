"""Template variables, such as `$NUM_NODES`, `${IMAGE_URI}` and `<account>`, that users replace with envsubst or by
hand.
"""

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final

from cli.jobs.importing.source import Path
from infra.config.problems import path_text

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


def fill(value: Any, given: Mapping[str, str], path: Path = ()) -> Any:
    """Return the document, with the variables in `given` replaced.

    A replaced string that contains only digits becomes a number.
    """
    if isinstance(value, Mapping):
        return {str(fill(key, given)): fill(one, given, (*path, key)) for key, one in value.items()}
    if isinstance(value, list):
        return [fill(one, given, (*path, number)) for number, one in enumerate(value)]
    if not isinstance(value, str):
        return value
    filled = _NAME.sub(lambda match: given.get(_name(match), match[0]), value)
    if given:
        filled = _ESCAPED.sub("$", filled)
    is_number = filled != value and re.fullmatch(r"\d+", filled) and not _is_text(path)
    return int(filled) if is_number else filled


def _is_text(path: Path) -> bool:
    """Return whether Kubernetes requires a string at this path, even if the value looks like a number."""
    return "command" in path or "args" in path or path[-1:] == ("value",)


def unset(value: Any, path: Path = ()) -> Iterator[Unset]:
    """Yield template variables that nothing expands. Outside shell scripts, Kubernetes leaves `$NAME` unchanged."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            if key in ("command", "args") and isinstance(one, list):
                yield from _unset_in_command(value, key, (*path, key))
            elif not (key == "value" and _refers_to_itself(value)):
                yield from unset(one, (*path, key))
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from unset(one, (*path, number))
    elif isinstance(value, str):
        yield from (Unset(_name(match), path_text(path)) for match in _NAME.finditer(value))


def left_to_shell(words: Sequence[str], known: Set[str]) -> list[str]:
    """Return the variables in a `sh -c` script that neither the script nor `known` sets, except standard variables such
    as PATH.
    """
    if not _is_shell(words):
        return []
    text = "\n".join(words[1:])
    own = {one for match in _ASSIGNED.finditer(text) for one in match.groups() if one}
    found = dict.fromkeys(_name(match) for match in _NAME.finditer(text) if not match["angle"])
    return [name for name in found if name not in own | known | _OF_SHELLS]


_OF_SHELLS: Final = frozenset({"PATH", "HOME", "PWD", "USER", "HOSTNAME", "LD_LIBRARY_PATH", "PYTHONPATH", "RANDOM", "SECONDS"})


def _is_shell(words: Sequence[Any]) -> bool:
    return bool(words) and str(words[0]).rpartition("/")[2] in _SHELLS


def _unset_in_command(container: Mapping[str, Any], key: str, path: Path) -> Iterator[Unset]:
    if _is_shell([*(container.get("command") or []), *(container.get("args") or [])]):
        return
    for number, word in enumerate(container[key]):
        yield from unset(word, (*path, number))


def _refers_to_itself(variable: Mapping[str, Any]) -> bool:
    """Return whether an environment variable extends the value that it has in the image, such as `$PATH:/opt/bin` for
    PATH.
    """
    text = str(variable.get("value"))
    return not _NAME.fullmatch(text) and any(_name(match) == variable.get("name") for match in _NAME.finditer(text))


def names(text: str) -> set[str]:
    """Return the names of all variables in a text."""
    return {_name(match) for match in _NAME.finditer(text)}


def _name(match: "re.Match[str]") -> str:
    return match["braced"] or match["plain"] or match["angle"]
