"""Recognize programs that start ranks themselves, at the start of a job's command or inside `sh -c`.

If a launcher started such a program as a rank, every rank would start all ranks again.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final, Literal

Starter = Literal["torchrun", "accelerate", "deepspeed"]

HOROVODRUN: Final = "horovodrun"
MPI_STARTERS: Final = ("mpirun", "mpiexec", "mpiexec.hydra", HOROVODRUN)
"""Launchers of MPI and Horovod. They need hosts that accept SSH connections."""

_PROGRAMS: Final[dict[str, Starter]] = {
    "torchrun": "torchrun",
    "accelerate launch": "accelerate",
    "accelerate-launch": "accelerate",
    "deepspeed": "deepspeed",
}
_MODULES: Final[dict[str, Starter]] = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "accelerate.commands.launch": "accelerate",
    "accelerate.commands.accelerate_cli launch": "accelerate",
    "deepspeed.launcher.runner": "deepspeed",
}
_PYTHON: Final = re.compile(r"python[\d.]*")
_SHELLS: Final = ("sh", "bash", "dash", "ash", "zsh")
_SHELL_OPTION: Final = re.compile(r"-[a-z]*c")
_PREFIXES: Final = ("env", "exec", "ionice", "nice", "nohup", "numactl", "setsid", "stdbuf", "taskset", "time", "timeout")
"""Programs that run the command that follows their own options."""
_OF_PREFIX: Final = re.compile(r"-.*|\w+=.*|\d[\w.,:-]*", re.DOTALL)
"""Matches the options, variables and values of these programs: `env -i A=1`, `timeout 60s`, `numactl -N 0`."""
_STATEMENT: Final = (
    r"(?:^|[;&|(\n]|\bthen\s|\bdo\s)\s*(?:\w+=\S*\s+)*"
    rf"(?:(?:[^\s;&|(]*/)?(?:{'|'.join(_PREFIXES)})\s+(?:(?:-\S*|\w+=\S*|\d[\w.,:-]*)\s+)*)*(?:[^\s;&|(]*/)?"
)
_MPI_IN_SHELL: Final = re.compile(_STATEMENT + r"(" + "|".join(map(re.escape, MPI_STARTERS)) + r")(?=\s|$)")
_IN_SHELL: Final = re.compile(
    _STATEMENT + r"(?:python[\d.]*\s+(?:-\w+\s+)*?-m\s+)?"
    r"(" + "|".join(re.escape(name).replace(r"\ ", r"\s+") for name in [*_PROGRAMS, *_MODULES]) + r")(?=\s|$)"
)


def count_prefix_words(command: Sequence[str]) -> int:
    """Return the number of words before the program that a command runs.

    >>> count_prefix_words(["timeout", "60", "env", "A=1", "torchrun", "train.py"]), count_prefix_words(["python", "env"])
    (4, 0)
    """
    length = 0
    while length < len(command) and _get_base_name(command[length]) in _PREFIXES:
        length += 1
        while length < len(command) and _OF_PREFIX.fullmatch(command[length]):
            length += 1
    return length


def find_mpi_starter(command: Sequence[str]) -> str | None:
    """Return the name of the MPI program with which a command starts; None if it is not an MPI program."""
    words = command[count_prefix_words(command) :]
    return name if words and (name := _get_base_name(words[0])) in MPI_STARTERS else None


def split_command(command: Sequence[str]) -> tuple[Starter, list[str], list[str]] | None:
    """Split a command that begins with a PyTorch starter into the kind of starter, the starter's words and the
    arguments.

    >>> split_command(["accelerate", "launch", "train.py"])
    ('accelerate', ['accelerate', 'launch'], ['train.py'])
    >>> split_command(["python3", "-u", "-m", "torch.distributed.run", "train.py"])
    ('torchrun', ['python3', '-u', '-m', 'torch.distributed.run'], ['train.py'])
    """
    words, first = list(command), count_prefix_words(command)
    if first == len(words):
        return None
    start, starters = first, _PROGRAMS
    if _PYTHON.fullmatch(_get_base_name(words[first])):
        start = next((number for number, word in enumerate(words) if not word.startswith("-") and number > first), len(words))
        if words[start - 1] != "-m":
            return None
        starters = _MODULES
    for length in (1, 2):
        name = " ".join(map(_get_base_name, words[start : start + length]))
        if name in starters:
            return starters[name], words[: start + length], words[start + length :]
    return None


def find_torch_starter_in_shell(command: Sequence[str]) -> Starter | None:
    """Return the PyTorch starter that the script of `sh -c` runs; None if it runs no such starter.

    >>> find_torch_starter_in_shell(["bash", "-c", "source env; torchrun train.py"])
    'torchrun'
    >>> find_torch_starter_in_shell(["bash", "-c", "pip install deepspeed && python train.py --deepspeed ds.json"])
    """
    match = _IN_SHELL.search(_extract_shell_script(command))
    return {**_PROGRAMS, **_MODULES}[" ".join(match[1].split())] if match else None


def find_mpi_starter_in_shell(command: Sequence[str]) -> str | None:
    """Return the name of the MPI program that the script of `sh -c` runs; None if it runs no such program.

    >>> find_mpi_starter_in_shell(["bash", "-c", "source env && /opt/openmpi/bin/mpirun ./train"])
    'mpirun'
    >>> find_mpi_starter_in_shell(["bash", "-c", "echo mpirun"])
    """
    match = _MPI_IN_SHELL.search(_extract_shell_script(command))
    return match[1] if match else None


def find_any_mpi_starter(command: Sequence[str]) -> str | None:
    """Return the name of the MPI program with which a command starts, or which its `sh -c` script runs; None if there is
    no such program."""
    return find_mpi_starter(command) or find_mpi_starter_in_shell(command)


def _extract_shell_script(command: Sequence[str]) -> str:
    """Return the script of `sh -c`; empty for other commands."""
    words = command[count_prefix_words(command) :]
    if not words or _get_base_name(words[0]) not in _SHELLS:
        return ""
    return next((text for option, text in pairwise(words) if _SHELL_OPTION.fullmatch(option)), "")


def find_torch_starter(command: Sequence[str]) -> Starter | None:
    """Return the PyTorch starter with which a command starts, or which its `sh -c` script runs; None if there is no such
    starter."""
    parts = split_command(command)
    return parts[0] if parts else find_torch_starter_in_shell(command)


def _get_base_name(program: str) -> str:
    return program.rpartition("/")[2]
