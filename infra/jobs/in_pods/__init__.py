"""Programs that run inside a job's pods, as text: they see nothing of this package, only what their image has."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

UNUSABLE_IMAGE: Final = 78
"""Exit code of a pod whose image lacks something (refuse.sh): EX_CONFIG of sysexits.h. Its termination message says what."""

_FIRST: Final[Mapping[str, Sequence[str]]] = {
    "launch.sh": ("wait.sh", "ssh.sh"),
    "serve.sh": ("ssh.sh",),
    "ssh.sh": ("refuse.sh",),
    "keys_on_volume.sh": ("refuse.sh",),
    "rendezvous.sh": ("wait.sh",),
}
"""What a script begins with."""


@cache
def text(name: str) -> str:
    """The source of one of them, whole."""
    return "".join(map(text, _FIRST.get(name, ()))) + (Path(__file__).parent / name).read_text(encoding="utf-8")


def python(name: str, *arguments: str) -> list[str]:
    """A container's command that runs a program in Python with arguments."""
    return ["python3", "-c", text(name), *arguments]


def shell(name: str, *arguments: str) -> list[str]:
    """A container's command that runs a shell script with arguments."""
    return ["/bin/sh", "-c", text(name), name.removesuffix(".sh"), *arguments]
