"""Find the `srun` options in a batch script. The shell function that replaces srun ignores most of these options.

https://slurm.schedmd.com/srun.html, https://github.com/NVIDIA/pyxis#usage
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

FLAGS: Final = (
    *("--label", "--exclusive", "--over*", "--unbuffered", "--no-*", "--qui*", "--exact", "--contiguous", "--kill-on-bad-exit"),
    *("--multi-prog", "--preserve-env", "--pty", "--verbose", "--spread-job", "--use-min-nodes", "--immediate"),
    *("--container-writable", "--container-re*", "--container-mount-home", "--container-entrypoint"),
)
"""Shell patterns for long options that never use the next word as their value."""
_LONG_FLAG: Final = re.compile("|".join(flag.replace("*", ".*") for flag in FLAGS))
_SHORT_FLAG: Final = re.compile(r"-[lvuQkEHIKOsZbX].*")
"""Short options without a value. slurm_mpi.sh and slurm_torchrun.sh contain the same list of letters."""
SHORT: Final[Mapping[str, str]] = {
    **{"N": "nodes", "n": "ntasks", "J": "job-name", "p": "partition", "t": "time", "c": "cpus-per-task", "o": "output"},
    **{"e": "error", "w": "nodelist", "x": "exclude", "G": "gpus", "A": "account", "D": "chdir", "C": "constraint"},
    **{"a": "array", "d": "dependency", "q": "qos"},
}
"""Maps each short option of sbatch to its long name. Except for -q, which is a flag, srun's options have the same names."""
_LONG: Final = {**SHORT, "l": "label", "K": "kill-on-bad-exit", "q": "q"}
_SRUN: Final = re.compile(r"(?:^|[\s;&|(`!])(?:/\S*/)?srun(?=\s)")
_WORD: Final = re.compile(
    r"""\s*((?:[^\s"'\\;&|()<>`$]|\\.|"(?:[^"\\]|\\.)*"|'[^']*'|`[^`]*`|\$\((?:[^()]|\([^()]*\))*\)|\$\{[^}]*\}|\$)+)"""
)
_VARIABLE: Final = re.compile(r'"?\$\{?(\w+)(?:\[[@*]\])?\}?"?')
_ASSIGNMENT: Final = re.compile(
    r"""\b(?P<name>[A-Za-z_]\w*)\+?=(?:\((?P<list>(?:[^()]|\([^()]*\))*)\)|"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>[^\s;&|]*))"""
)


def find_options(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield (line, long name, text) for each srun option in a script, including options stored in variables."""
    assigned: dict[str, list[str]] = {}
    for match in _ASSIGNMENT.finditer(text):
        value = next(group for group in match.group("list", "double", "single", "bare") if group is not None)
        assigned.setdefault(match["name"], []).append(re.sub(r"(?m)(?:^|\s)#.*$", "", value).strip())
    for number, line in _split_lines(text):
        for start in _SRUN.finditer(line):
            words = _split_words(line[start.end() :])
            yield from ((number, name, option) for name, option in _parse_options(words, assigned))


def _split_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the number and text of each line that is not a comment. A trailing backslash joins a line with the next."""
    number, whole = 1, ""
    for last, line in enumerate(text.split("\n"), 1):
        whole += line.removesuffix("\\")
        if line.endswith("\\"):
            continue
        if not whole.lstrip().startswith("#"):
            yield number, whole
        number, whole = last + 1, ""


def _split_words(text: str) -> list[str]:
    """Return the words of a command up to the first shell operator."""
    words, position = [], 0
    while match := _WORD.match(text, position):
        words.append(match[1])
        position = match.end()
    return words


def _parse_options(words: Sequence[str], assigned: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
    left = list(words)
    while left:
        word = left.pop(0)
        if variable := _VARIABLE.fullmatch(word):
            values = assigned.get(variable[1], ())
            if not values or not all(value == "" or value.startswith("-") for value in values):
                return
            for value in values:
                yield from _parse_options(_split_words(value), {})
        elif word.startswith("--"):
            name, is_set, _ = word[2:].partition("=")
            has_next = not is_set and not _LONG_FLAG.fullmatch(word) and left
            yield name, f"{word} {left.pop(0)}" if has_next else word
        elif word.startswith("-") and len(word) > 1:
            has_next = len(word) == 2 and not _SHORT_FLAG.fullmatch(word) and left
            yield _LONG.get(word[1], word[1]), f"{word} {left.pop(0)}" if has_next else word
        else:
            return


def get_option_value(option: str) -> str:
    """Return the value part of an option's text.

    >>> [get_option_value(option) for option in ("--nodes=2", "--nodes 2", "-N 2", "-N2", "-l")]
    ['2', '2', '2', '2', '']
    """
    name, _, rest = option.replace("=", " ", 1).partition(" ")
    return rest or ("" if name.startswith("--") else name[2:])
