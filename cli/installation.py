"""How this command line was installed: as a clone of the repository, or from a wheel; and what to type to run it."""

import os
import shlex
import sys
from pathlib import Path
from typing import Final

_PARENT: Final = Path(__file__).resolve().parents[1]
_SCRIPT: Final = _PARENT / "scripts" / "cluster"
_FROM_WHEEL: Final = not _SCRIPT.is_file() or Path(sys.argv[0]).name == "gpumpi"

CLONE: Final = _PARENT if _SCRIPT.is_file() else None
"""Root of the clone."""
NAME: Final = "gpumpi" if _FROM_WHEEL else "cluster"
"""In usage lines and before errors."""
STACKS: Final = CLONE / "stacks" if CLONE else Path("stacks")
"""Default folder of stack files; without a clone, that of the project in the current folder."""


def command() -> str:
    """The program in hints: works when pasted into the shell from which it was run."""
    if _FROM_WHEEL:
        return NAME
    here = Path.cwd()
    inside = here == _PARENT or _PARENT in here.parents
    return shlex.quote(os.path.relpath(_SCRIPT, here) if inside else str(_SCRIPT))


def pasteable(text: str) -> str:
    """A message from `infra`, which cannot know how it was started."""
    return text.replace("scripts/cluster", command()) if "scripts/cluster" in text else text


def version() -> str:
    """Of the package's metadata; in a clone that was not installed, of pyproject.toml."""
    from importlib import metadata

    if CLONE is None:
        return metadata.version("gpumpi")
    import tomllib

    with (CLONE / "pyproject.toml").open("rb") as file:
        return str(tomllib.load(file)["project"]["version"])
