"""Source text of the programs that run inside a job's pods. They use only programs and packages in the image, not
this package."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

UNUSABLE_IMAGE: Final = 78
"""Exit code of a pod whose image lacks a program, module or user (refuse.sh): EX_CONFIG in sysexits.h. The termination
message names what is missing."""

PROGRESS_PATTERN: Final = r"^gpumpi-progress step=(?P<step>\d+)"
"""Lines that progress_file.sh prints."""

_FIRST: Final[Mapping[str, Sequence[str]]] = {
    "launch.sh": ("wait.sh", "ssh.sh", "run.sh"),
    "serve.sh": ("ssh.sh", "stop.sh"),
    "ssh.sh": ("refuse.sh",),
    "keys_on_volume.sh": ("refuse.sh",),
    "rendezvous.sh": ("wait.sh", "run.sh", "stop.sh"),
    "rank.sh": ("run.sh",),
    "setup.sh": ("run.sh",),
}
"""Maps a script to the scripts that `text` puts before it."""


@cache
def read_source(name: str) -> str:
    """Return the source of a program, including the scripts that come before it."""
    return "".join(map(read_source, _FIRST.get(name, ()))) + (Path(__file__).parent / name).read_text(encoding="utf-8")


def build_python_command(name: str, *arguments: str) -> list[str]:
    """Return a container command that runs a Python program with arguments."""
    return ["python3", "-c", read_source(name), *arguments]


def build_shell_command(name: str, *arguments: str, before: str = "") -> list[str]:
    """Return a container command that runs a shell script with arguments. `before`: a script that runs first."""
    return ["/bin/sh", "-c", before + read_source(name), name.removesuffix(".sh"), *arguments]
